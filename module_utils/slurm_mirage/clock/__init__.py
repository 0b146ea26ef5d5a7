"""Conversions between trace, virtual and real time, and the clocks of an instance and of its hosts."""

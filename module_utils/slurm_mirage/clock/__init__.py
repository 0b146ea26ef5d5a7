"""Conversions between trace, virtual and real time; the virtual clock of an instance; clock offsets between hosts."""

"""Errors, files, processes and host lists. Every other package may use them; they use no other package."""

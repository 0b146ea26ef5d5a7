"""Errors, files, processes and host lists: what every other package may use."""

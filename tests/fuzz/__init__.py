"""Fuzz tests of everything that reads files: mutated files are read in processes with limits of time and memory."""

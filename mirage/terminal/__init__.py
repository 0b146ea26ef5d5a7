"""Output on the terminal: progress, tables and the state of an instance."""

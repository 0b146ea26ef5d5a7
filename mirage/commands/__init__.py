"""The targets of make: one module for each, and the entry point."""

"""The supervisor of an instance's daemons on a host, and what isolates them from the host."""

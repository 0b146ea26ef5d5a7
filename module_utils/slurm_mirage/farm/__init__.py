"""The farm: the supervisor of an instance's daemons on a host, and the isolation of these daemons from the host."""

"""OpenPBS as a resource manager."""

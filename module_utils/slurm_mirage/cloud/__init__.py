"""Servers in an OpenStack cloud for the hosts of a cluster."""

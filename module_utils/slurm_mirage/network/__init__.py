"""Firewall rules of an instance, by nftables or ufw."""

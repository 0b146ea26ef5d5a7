"""Firewall rules of an instance, for nftables and ufw."""

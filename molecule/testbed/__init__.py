"""Hosts for tests: Debian machines with systemd, sshd and addresses of their own, on one machine that runs as root."""

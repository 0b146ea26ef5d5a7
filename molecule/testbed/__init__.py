"""Creates hosts for tests on one machine: Debian containers with systemd, sshd and their own addresses. Needs root."""

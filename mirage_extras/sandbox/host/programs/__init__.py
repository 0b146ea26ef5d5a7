"""Programs of a sandbox on its host, which run outside of Ansible."""

"""OpenPBS's programs on hosts, which run outside of Ansible."""

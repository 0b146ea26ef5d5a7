"""What OpenPBS's Ansible modules do in an instance."""

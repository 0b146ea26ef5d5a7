"""What is done with the instance of a sandbox, as root."""

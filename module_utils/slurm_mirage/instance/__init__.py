"""An instance on a host: its folders and ports, the addresses of its nodes, and the resources that it needs."""

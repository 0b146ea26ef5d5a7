"""An instance on a host: its folders and ports, the places of its nodes, and the room that it needs."""

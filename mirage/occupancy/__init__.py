"""The state of every node of a machine over time: what jobs had of it, when it was out of service or reserved, and what room that
left."""

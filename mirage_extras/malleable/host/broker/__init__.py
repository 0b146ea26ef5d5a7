"""The broker of a cluster: decides when malleable jobs change their size, and has the resource manager do it."""

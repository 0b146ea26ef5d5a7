"""Jobs that change their number of nodes while they run, and the broker that they ask (docs/malleable.md)."""

PLACE = 1

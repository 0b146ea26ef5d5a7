"""Jobs that change their number of nodes while they run, and the broker that they ask (mirage_extras/malleable/README.md)."""

PLACE = 1

"""The feeder of filler jobs: keeps enough of them waiting to fill what is idle, and has them save themselves in time."""

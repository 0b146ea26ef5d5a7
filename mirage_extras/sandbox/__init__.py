"""A cluster to test tools on: users with names, the REST API, metrics (docs/sandbox.md)."""

PLACE = 4

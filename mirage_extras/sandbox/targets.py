"""The targets of the Makefile that a sandbox has: module and function of each."""

TARGETS = {
    "sandbox": ("mirage_extras.sandbox.command", "sandbox"),
    "pause": ("mirage_extras.sandbox.pausing", "pause"),
    "resume": ("mirage_extras.sandbox.pausing", "resume"),
}
OF_RUN = ("sandbox",)
"""Those that have the knobs of a cluster and of a run."""
OF_CLUSTER = ("pause", "resume")
"""Those that only have the knobs by which a cluster is found."""

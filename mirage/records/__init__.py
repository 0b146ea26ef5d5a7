"""The records of a run, the results computed from them, and the verdict on the run."""

"""The records of a run: the files in its folder, and what happened to its jobs, joined from them."""

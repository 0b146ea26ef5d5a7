"""The jobs of a replay: the plan of submissions, how a job is run, and the jobs' own records."""

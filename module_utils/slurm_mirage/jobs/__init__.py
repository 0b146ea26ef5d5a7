"""The jobs of a replay: the plan of submissions, how a job is played, and the jobs' own records."""

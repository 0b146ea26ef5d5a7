"""The page of the study of malleable jobs: figures of the source beside those of the runs."""

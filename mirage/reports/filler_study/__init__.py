"""Reports of the study of filler jobs (`make study-filler`)."""

"""Reports of the study of filler jobs (`make study STUDY=filler`)."""

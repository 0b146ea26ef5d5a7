"""Comparisons of schedules: resampling, confidence intervals and their wording."""

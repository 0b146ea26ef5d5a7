"""Text: numbers and durations for people, and files that people give."""

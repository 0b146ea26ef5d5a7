"""The course of an experiment: preparation, checks, playbooks, campaigns and endings."""

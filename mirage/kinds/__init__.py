"""Kinds of jobs that a run may have beside those that sleep for their run times.

Each kind is a package, with a module for each part of the program. The modules here are the tables of the kinds, one for each part:
a part may use the modules of its own table only, because a package imports those below it.
"""

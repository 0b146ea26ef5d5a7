"""Pages and pictures for people: what all of them share (theme, pictures, page), and a module for each kind of report.

A page is one file without scripts or anything from the network; a picture is drawn from small tables, never from jobs.
"""

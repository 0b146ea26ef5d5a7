"""Report pages and their pictures: shared parts (theme, pictures, page, timeline), and a module per kind of report.

A page is one HTML file that loads nothing from the network. Pictures are drawn from small aggregated tables.
"""

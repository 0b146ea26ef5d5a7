"""What the extras run on hosts: each package here is a link to the folder `host` of an extra in mirage_extras.

An extra's folder may be removed. So the core imports a package of it in a `try` that only its absence may fail.
"""

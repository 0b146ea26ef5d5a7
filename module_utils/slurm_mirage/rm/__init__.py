"""Resource managers: a neutral interface (api) and a package for each implementation."""

"""Published comparisons that are repeated: knobs of `make compare`, simulations, and pages (README.md)."""

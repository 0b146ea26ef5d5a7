"""The aspects, a package each: what a run may have beside what every run has. `mirage.aspects` finds them."""

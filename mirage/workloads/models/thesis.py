"""Job sizes of the thesis's workload, and round values of requested times, for default.py and raijin.py."""

from __future__ import annotations

# The thesis's Table 4.1: share in per cent of jobs by their number of cores, NCI Raijin 2016.
SIZES = {1: 49, 2: 11, 4: 5, 8: 7, 16: 8, 48: 4, 64: 6}
OTHERS = 10

# Round values of requested times, in minutes: Tsafrir, Etsion, Feitelson, "Modeling User Runtime Estimates", JSSPP 2005,
# find that some 20 round values make up nearly all estimates.
ROUND_MINUTES = (1, 2, 5, 10, 20, 30, 60, 120, 180, 360, 480, 720, 1440, 2160, 2880, 4320, 7200)

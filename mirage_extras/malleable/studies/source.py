"""Figures of the source: "DMR API: Improving the cluster productivity by turning applications into malleable" (docs/references.md).

Keys are those of `measured.Figure`: the table, the row, the column.
"""

from __future__ import annotations

FIXED, PREFERRED, WIDE = "fixed", "preferred", "wide"
SYNC, ASYNC = "sync", "async"

# Jobs, version: allocated nodes in %, wait, execution and completion in s.
_TABLE_4 = {
    (50, FIXED): (98.71, 4115.02, 620.26, 4735.28),
    (50, PREFERRED): (68.67, 1359.92, 900.30, 2260.22),
    (100, FIXED): (97.39, 9750.34, 586.64, 10336.98),
    (100, PREFERRED): (71.91, 2990.60, 858.16, 3848.76),
    (200, FIXED): (98.38, 17466.20, 520.58, 17986.78),
    (200, PREFERRED): (73.54, 6856.80, 825.88, 7676.67),
    (400, FIXED): (98.38, 31788.39, 532.14, 32320.53),
    (400, PREFERRED): (73.54, 13861.03, 843.19, 14704.22),
}
TABLE_4_COLUMNS = ("utilisation, %", "wait, s", "execution, s", "completion, s")

_TABLE_2 = {
    ("no action", "mean time, s"): (0.0094, 0.0137),
    ("no action", "longest, s"): (0.2078, 0.1140),
    ("expand", "number per job"): (0.125, 0.267),
    ("expand", "mean time, s"): (0.423, 8.820),
    ("expand", "longest, s"): (0.530, 40.418),
    ("shrink", "number per job"): (0.485, 0.757),
    ("shrink", "mean time, s"): (0.425, 0.422),
    ("shrink", "longest, s"): (0.541, 0.555),
}

_TABLE_3 = {
    "utilisation, %": {FIXED: 83.607, SYNC: 93.909, ASYNC: 86.687},
    "gain in wait, %": {SYNC: 27.980, ASYNC: 30.575},
    "gain in execution, %": {SYNC: -58.482, ASYNC: -97.294},
    "gain in completion, %": {SYNC: 12.786, ASYNC: 7.799},
}

FIGURES: dict[tuple[str, str, str], float] = {
    **{
        ("table 2", f"{kind}, {mode}", column): value
        for (kind, column), pair in _TABLE_2.items()
        for mode, value in zip((SYNC, ASYNC), pair, strict=True)
    },
    **{("table 3", mode, column): value for column, by_mode in _TABLE_3.items() for mode, value in by_mode.items()},
    **{
        ("table 4", f"{jobs} jobs, {version}", column): value
        for (jobs, version), row in _TABLE_4.items()
        for column, value in zip(TABLE_4_COLUMNS, row, strict=True)
    },
}

CONTRADICTIONS = {
    (
        "table 4",
        f"200 jobs, {PREFERRED}",
        "completion, s",
    ): "the source contradicts itself: 6856.80 + 825.88 is 7682.68, not 7676.67",
    **{
        ("table 4", f"{jobs} jobs, {version}", "utilisation, %"): "the source prints the same utilisation for 200 and for 400 jobs"
        for jobs in (200, 400)
        for version in (FIXED, PREFERRED)
    },
}
"""Rows in which the source contradicts itself."""

_DRAWS = {
    (50, FIXED): ((89.5, 99.9), (3556, 5022), (466.1, 712.8), (4059, 5668)),
    (50, PREFERRED): ((63.1, 75.4), (1172, 1634), (697, 1030), (2123, 2386)),
    (100, FIXED): ((93, 99.9), (7792, 9742), (516.4, 657.6), (8333, 10380)),
    (100, PREFERRED): ((64.6, 72.7), (2802, 3248), (778.6, 977.9), (3725, 4081)),
    (200, FIXED): ((96.7, 99.9), (16507, 18457), (526.4, 642.1), (17034, 19049)),
    (200, PREFERRED): ((65.8, 70.5), (5944, 6517), (802.3, 971.5), (6863, 7368)),
    (400, FIXED): ((98.8, 99.9), (33161, 36266), (533, 594.9), (33698, 36861)),
    (400, PREFERRED): ((66.4, 69.2), (12411, 13218), (816.5, 908.2), (13310, 14067)),
}
DRAWS = {
    ("table 4", f"{jobs} jobs, {version}", column): bounds
    for (jobs, version), row in _DRAWS.items()
    for column, bounds in zip(TABLE_4_COLUMNS, row, strict=True)
}
"""Ranges of figures of table 4 that contain 95 % of simulated workloads, whose jobs are drawn at random from the three
applications.

They are from 150, 80, 40 and 16 workloads of 50, 100, 200 and 400 jobs with the run times of the model dmr, without Slurm's delays
(mirage_extras/malleable/tests/malleable_simulation.py). The source has drawn one of them.
"""

FIT = 15.0
"""Per cent. The run times of the model dmr are fitted to table 4: simulated, they are at most 13 % off."""

_SLEEP = "run times and machine of flexible sleep are not published; here they are those of feitelson96 on 20 nodes"
_PATH = (
    "the source decides inside slurmctld, and its actions move 1 GB; here a broker beside Slurm decides, asks by commands, and "
    "moves nothing: what the data cost is a parameter of the job. On the event clock the host's own work takes no time "
    "(make bench PART=resize has it)"
)
REASONS = {
    ("table 2", "mean time, s"): _PATH,
    ("table 2", "longest, s"): _PATH,
    ("table 2", "number per job"): _SLEEP,
    ("table 3", ""): _SLEEP,
}
"""Why figures of a table may differ, by table and column; column "": all of the table."""

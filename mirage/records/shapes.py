"""The shapes (`strict_json`) of the JSON files in the folder of a run: those that are computed, and those that hosts sent.

The members are those that somebody relies on; earlier releases did not write all of them.
"""

from __future__ import annotations

from slurm_mirage.base.strict_json import COUNT, FLAG, OBJECT, TEXT, Each, Either, Maybe, Named, Number, Object, Row
from slurm_mirage.farm.events import EVENT

_NUMBER = Number()
_FIGURE = Maybe(_NUMBER)
_WHOLE = Number(1, 1e12, whole=True)

EXPERIMENT_JSON = Object(
    {
        **dict.fromkeys(("inputs", "knobs"), Maybe(Named(Maybe(TEXT)))),
        **dict.fromkeys(("run", "instance", "run_host"), Maybe(TEXT)),
        "trace": Maybe(Object({"path": Maybe(TEXT)})),
        "clock": Maybe(Object({"asked": Maybe(TEXT), "speed": Maybe(Either((Number(0, 1e9), TEXT), "a number or a text"))})),
        "git": Maybe(Object({"commit": TEXT, "changed": FLAG})),
        "attempt": Maybe(COUNT),
        "hosts": Maybe(Each(OBJECT)),
        "workload": Maybe(OBJECT),
        "comparison": Maybe(Each(OBJECT)),
    }
)
"""experiment.json: the inputs of a run, a sweep or a comparison."""

_VALIDITY = Object(
    {
        "verdict": Maybe(TEXT),
        "valid": FLAG,
        "reasons": Each(TEXT),
        "inconclusive": Maybe(Each(TEXT)),
        "inconclusive_metrics": Maybe(Named(TEXT)),
        "thresholds": Maybe(Named(_FIGURE)),
        "event_clock": Maybe(OBJECT),
        "messages": Maybe(Named(COUNT)),
        "stretch_classes": Maybe(Each(OBJECT)),
    }
)
JUDGED_JSON = Object({"validity": _VALIDITY})
"""Of metrics.json only the verdict."""
METRICS_JSON = Object(
    {
        "metrics": Named(_FIGURE),
        "jobs": Named(COUNT, needed=("submitted",)),
        "settings": Object(
            {"processors": _WHOLE, "nodes": Maybe(_WHOLE), "tau": _NUMBER, "window": Maybe(Row((_NUMBER, _NUMBER)))}
        ),
        "null_reasons": Maybe(Named(TEXT)),
        "excluded": Maybe(Named(COUNT)),
        "errors": Maybe(Named(Object({"emulation": _FIGURE, "jobs": _FIGURE}))),
        "error_reasons": Maybe(Named(TEXT)),
        "distribution": Maybe(Object({"nodes": Each(_NUMBER), "share": Each(_NUMBER)})),
        "classes": Maybe(Each(Object({"size": TEXT, "runtime": TEXT, "jobs": COUNT}))),
        "validity": _VALIDITY,
    }
)
"""metrics.json of a run."""

STATUS_JSON = Object({"ending": TEXT, "message": TEXT})
"""status.json: how the command of a run ended."""

CALIBRATION_JSON = Object({"speed": Number(1e-9, 1e9)})
"""calibration.json: the speed that was chosen for a run."""

COMPARISON_JSON = Object({"configurations": Each(Object({"label": TEXT, "runs": Each(TEXT)})), "method": Maybe(OBJECT)})
"""comparison.json."""

COMPLAINTS_JSON = Object(
    {
        "head": Maybe(TEXT),
        "counts": Maybe(Named(Named(COUNT))),
        "lines": Maybe(Named(Each(TEXT))),
        "events": Maybe(Named(Each(EVENT))),
    }
)
"""complaints.json: the errors of the daemons, and the events of the farms, by host."""

_OFFSET = Object({"offset": Maybe(Number(-1e9, 1e9)), "error": Maybe(Number(0, 1e9))})
OFFSETS_JSON = Object(dict.fromkeys(("before", "after"), Maybe(Each(_OFFSET))))
"""clock_offsets.json: the clocks of the hosts before and after the run."""

QUEUE_JSON = Each(Object({"job_id": COUNT, "name": TEXT, "user": TEXT, "submit": Maybe(Number(0, 9_000_000_000, whole=True))}))
"""queue.json: jobs that had not ended when the records were collected."""

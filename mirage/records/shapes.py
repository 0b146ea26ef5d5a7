"""The shapes (`strict_json`) of the JSON files in the folder of a run: those that are computed, and those that hosts sent.

The shapes name the members that are read. One that may be missing (`Maybe`, `IfThere`) is not in every run, or is not measured.
"""

from __future__ import annotations

from mirage.aspects import listed
from slurm_mirage.base.strict_json import (
    COUNT,
    FLAG,
    OBJECT,
    TEXT,
    Each,
    Either,
    IfThere,
    Maybe,
    Name,
    Named,
    Number,
    Object,
    OrNull,
    Row,
    Shape,
    Text,
)
from slurm_mirage.farm.events import EVENT

_NUMBER = Number()
_FIGURE = Maybe(_NUMBER)
_WINDOW = Maybe(Row((_NUMBER, _NUMBER)))
_WHOLE = Number(1, 1e12, whole=True)

VERDICTS = ("valid", "invalid", "inconclusive")
"""The words of metrics.json for the verdict on a run."""

_PLACES = Each(COUNT)
_SEARCH_PLAN = Object(
    {
        "names": Each(TEXT),
        "values": Each(Each(TEXT)),
        "base": _PLACES,
        **dict.fromkeys(("settings", "goal", "second", "limits", "proof"), TEXT),
        "margin": _NUMBER,
        **dict.fromkeys(("batch", "jobs", "early_jobs"), COUNT),
    }
)
_TRIAL = Object(
    {
        "number": COUNT,
        "run": Name(),
        **dict.fromkeys(("settings", "changed"), Named(TEXT)),
        **dict.fromkeys(("figure", "second", "first_part"), OrNull(_NUMBER)),
        "ended_after_first_part": FLAG,
        "breaks": Each(TEXT),
    }
)
_TUNED = Object({"name": TEXT, "values": Each(TEXT), "base": TEXT, "share": OrNull(_NUMBER), "by_value": OrNull(Each(_NUMBER))})
_PART = Object({**dict.fromkeys(("jobs", "misranked", "pairs"), COUNT), "rank_correlation": OrNull(_NUMBER), "decided": FLAG})
_PROOF = Object({**dict.fromkeys(("run", "verdict", "words"), TEXT), "jobs": COUNT, "valid": FLAG, "limits": Named(TEXT)})
SEARCH_JSON = Object(
    {
        **dict.fromkeys(("goal", "second", "limits", "stopped"), TEXT),
        "margin": _NUMBER,
        **dict.fromkeys(("jobs", "first_trials"), COUNT),
        "settings": Each(_TUNED),
        "trials": Each(_TRIAL),
        "front": _PLACES,
        "best": OrNull(COUNT),
        "flat": FLAG,
        "range_percent": OrNull(Row((_NUMBER, _NUMBER))),
        "first_part": _PART,
        "proof": OrNull(_PROOF),
    }
)
"""search.json."""

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
        "search": Maybe(_SEARCH_PLAN),
        "course": Maybe(Object({**dict.fromkeys(("seconds", "budget"), _NUMBER), "stopped": TEXT})),
        "comparison": Maybe(Each(Object({"label": TEXT, "replica": COUNT, "folder": Name()}))),
        "site": Maybe(Object(dict.fromkeys(("taken", "approximated", "absent"), Maybe(Named(COUNT))))),
    }
)
"""experiment.json: the inputs of a run, a sweep or a comparison."""

_FIGURES = (
    *(f"{name}_{part}" for name in ("submit_lag", "start_latency") for part in ("mean", "p50", "p99")),
    *(f"runtime_stretch_{part}" for part in ("p1", "p50", "p99")),
    *(f"stretch_share_{part}" for part in ("p1", "p50", "p99")),
    *("submit_lag_of_wait", "start_latency_jobs", "launch_latency_p50", "stretch_of_load", "stretch_known", "launch_cost"),
    *("launch_cost_error", "launch_cost_share", "clipped", "freed_p50", "freed_p99", "freed_known", "nodes_not_responding"),
    *("backfill_cycle_max", "retries", "resubmitted", "foreign_jobs", "requeued", "copies_cancelled", "reruns_cancelled"),
    *("interrupted", "halted", "limits_extended", "host_cpu", "host_cpu_saturated", "clock_speed", "clock_offset_max"),
    *("released", "disagreements", "suspended_compared", "suspended_apart_max", "false_quiet_share"),
    *("dispatch_gap_mean", "dispatch_gap_p99", "dispatch_gap_of_load", "dispatch_gap_jobs", "nodes_lacking", "backfill_cycle_mean"),
    *(name for name, *_ in listed("figures", "FIGURES")),
)
_VERDICT = Object({"verdict": Text(words=VERDICTS), "valid": FLAG, "reasons": Each(TEXT), **dict.fromkeys(_FIGURES, _FIGURE)})
_STRETCH = Object({**dict.fromkeys(("size", "runtime", "judged"), TEXT), **dict.fromkeys(("p1", "p50", "p99"), _FIGURE)})
_VALIDITY = Object(
    {
        **_VERDICT.members,
        **dict.fromkeys(("daemons_ended", "broken", "disagreements_by_kind", "messages"), Maybe(Named(COUNT))),
        "nodes_lacking_most": Maybe(Named(COUNT)),
        "resolution": Named(_FIGURE, needed=("record", "floor")),
        "manager": IfThere(TEXT),
        "bounds": Named(_NUMBER),
        "inconclusive": Each(TEXT),
        **dict.fromkeys(("inconclusive_metrics", "uncertain_metrics"), Named(TEXT)),
        "thresholds": Named(_FIGURE),
        "event_clock": Maybe(Named(_FIGURE)),
        "stretch_classes": Each(_STRETCH),
    }
)
JUDGED_JSON = Object({"validity": _VERDICT})
"""Of metrics.json only the verdict."""
MEASURED_JSON = Object({"metrics": Named(_FIGURE), "validity": IfThere(_VERDICT)})
"""Of metrics.json the values of the metrics, and the verdict."""
_BESIDE = Object(dict.fromkeys(("run", "record", "difference"), OrNull(_FIGURE)))
_VALUE = Object({"value": OrNull(_FIGURE)})
_CORRELATION = OrNull(Object({"value": _NUMBER}))
_MEAN_WAIT: dict[str, Shape] = {"jobs": COUNT, "wait_mean": _BESIDE}
_WAITS: dict[str, Shape] = {**_MEAN_WAIT, **dict.fromkeys(("wait_median", "wait_p95"), _BESIDE)}
_DIFFERENCES = ("mean", "median", "quartile_1", "quartile_3", "within_minute", "within_tenth", "shorter", "longer")
_NEARNESS = Object(
    {
        "waits": Object(_WAITS),
        "deferred": Maybe(Object({"jobs": COUNT, "share": _NUMBER, "copied": OrNull(_NUMBER)})),
        "rank_correlation": _CORRELATION,
        "differences": Object(dict.fromkeys(_DIFFERENCES, _VALUE)),
        "classes": Each(Object({"size": TEXT, "runtime": TEXT, **_WAITS})),
        "gpu_jobs": OrNull(Object(_WAITS)),
        "partitions": Each(Object({"partition": TEXT, **_WAITS})),
        "users": OrNull(Object({"users": COUNT, "wait": _BESIDE, "rank_correlation": _CORRELATION})),
        "over_time": Object({"width": _NUMBER, "bins": Each(Object({"begin": _NUMBER, **_MEAN_WAIT}))}),
        "utilisation": OrNull(_BESIDE),
        "inconclusive": TEXT,
        "played_in_full": OrNull(_FIGURE),
    }
)
_MEANS = dict.fromkeys(("wait_mean", "bounded_slowdown_mean", "response_mean", "area_share", "immediate_fraction"), _FIGURE)
_WAITED = Object({"name": TEXT, "jobs": COUNT, "waited": _NUMBER, "causes": Named(_NUMBER)})
_WAIT_CAUSES = Object(
    {
        "jobs": COUNT,
        "users": COUNT,
        "reasons_recorded": FLAG,
        "waited": _NUMBER,
        "unexplained": _NUMBER,
        "causes": Named(_NUMBER),
        **dict.fromkeys(("by_size", "by_runtime", "by_user", "by_partition"), Each(_WAITED)),
        "longest": Each(Object({"job": COUNT, "waited": _NUMBER, "causes": Named(_NUMBER)})),
    }
)
WAITED_JSON = Object({"wait_causes": _WAIT_CAUSES})
"""Of metrics.json only why jobs waited."""
_ERRORS = Object({**dict.fromkeys(("emulation", "replicas"), _FIGURE), "other_jobs": Maybe(Each(_NUMBER))})
METRICS_JSON = Object(
    {
        "metrics": Named(_FIGURE),
        "jobs": Named(COUNT, needed=("submitted",)),
        "settings": Object(
            {
                "processors": _WHOLE,
                "nodes": Maybe(_WHOLE),
                "tau": _NUMBER,
                "window": _WINDOW,
                **dict.fromkeys(("warmup_cut", "cooldown_cut", "immediate_below", "wait_horizon"), _NUMBER),
            }
        ),
        "censored": Object({"jobs": COUNT, "share": _NUMBER}),
        "steady": Object({"window": OrNull(_WINDOW), "jobs": COUNT, "metrics": OrNull(Named(_FIGURE)), "reason": OrNull(TEXT)}),
        "null_reasons": Named(TEXT),
        "excluded": Named(COUNT),
        "errors": Named(_ERRORS),
        "error_reasons": Named(TEXT),
        "distribution": OrNull(Object({"nodes": Each(_NUMBER), "share": Each(_NUMBER)})),
        "classes": Each(Object({"size": TEXT, "runtime": TEXT, "jobs": COUNT, "errors": Named(_ERRORS), **_MEANS})),
        "wait_causes": _WAIT_CAUSES,
        "not_played": Named(Object({"jobs": COUNT, "share": _NUMBER})),
        "nearness": Maybe(_NEARNESS),
        "validity": _VALIDITY,
    }
)
"""metrics.json of a run."""

STATUS_JSON = Object({"ending": TEXT, "message": TEXT})
"""status.json: how the command of a run ended."""

CALIBRATION_JSON = Object({"speed": Number(1e-9, 1e9)})
"""calibration.json: the speed that was chosen for a run."""

_METHOD = Object({**dict.fromkeys(("level", "blocks", "cycles", "margin", "equivalence_level"), _NUMBER), "compared": Named(COUNT)})
_REASONS = Named(Each(TEXT))
_OF_JOBS = dict.fromkeys(("wait_mean", "wait_p95", "backlog", "backlog_at_end"), _FIGURE)
_IDLE = Object({**dict.fromkeys(("cause", "reason", "words"), TEXT), "share": _NUMBER})
_NODES_OF_A_CLASS = Object(
    {
        "names": TEXT,
        "new": FLAG,
        "gpus": TEXT,
        **dict.fromkeys(("nodes", "processors", "jobs"), COUNT),
        **dict.fromkeys(("features", "partitions"), Each(TEXT)),
        **_OF_JOBS,
        **dict.fromkeys(("utilisation", "gpu_utilisation", "idle"), _FIGURE),
        "idle_causes": Each(_IDLE),
    }
)
_MACHINE = Object(
    {
        **dict.fromkeys(("label", "grow"), TEXT),
        "words": Each(TEXT),
        **dict.fromkeys(("nodes", "processors", "jobs"), COUNT),
        **_OF_JOBS,
        **dict.fromkeys(("utilisation", "hours_avoided", "cost", "cost_of_an_hour", "scheduler_seconds"), _FIGURE),
        "classes": Each(_NODES_OF_A_CLASS),
    }
)
COMPARISON_JSON = Object(
    {
        "growth": IfThere(Object({"common_jobs": COUNT, "machines": Each(_MACHINE)})),
        **dict.fromkeys(("baseline", "answer"), TEXT),
        "configurations": Each(Object({"label": TEXT, "runs": Each(Name())})),
        "jobs": Named(COUNT, needed=("compared", "left_out")),
        "settings": OBJECT,
        "method": _METHOD,
        "metrics": Named(OBJECT),
        "classes": Each(OBJECT),
        "validity": Object({"valid": FLAG, "invalid": _REASONS, "inconclusive": _REASONS}),
    }
)
"""comparison.json."""

PREDICTION_JSON = Object(
    {
        **dict.fromkeys(("now", "horizon", "not_placed", "beyond_horizon"), _NUMBER),
        "zone": TEXT,
        "courses": Each(Name()),
        "running": COUNT,
        "left": Named(COUNT),
        "slurm": Named(
            Object({"plans": COUNT, **dict.fromkeys(("late", "error", "log10", "within_minute"), _NUMBER)}),
        ),
        "jobs": Each(
            Object(
                {
                    "job": TEXT,
                    "processors": COUNT,
                    **dict.fromkeys(
                        ("requested", "promised", "start_50", "start_90", "from_50", "to_50", "from_90", "to_90"), OrNull(_NUMBER)
                    ),
                    "courses": Each(OrNull(_NUMBER)),
                }
            )
        ),
    }
)
"""predict.json."""

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

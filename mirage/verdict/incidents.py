"""Events that make a run invalid (broken jobs, foreign jobs, ends of daemons, halts), as reasons of its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import polars as pl
from polars import col

from mirage.records.disagreements import STRUCTURAL, in_record_only
from mirage.records.record import RunRecord
from mirage.records.run_samples import LACKING, SILENT
from mirage.verdict import events as events_of_run
from mirage.verdict.advice import counted, remedy
from mirage.verdict.thresholds import Thresholds
from slurm_mirage.farm.events import how_it_ended
from slurm_mirage.jobs import arrays
from slurm_mirage.replay.halts import CONTROLLER, REPLAY
from slurm_mirage.rm.api import NOT_ENDED
from slurm_mirage.rm.evidence import CONNECTION_RENEWED, NODE_DOWN, NOT_JUDGED
from slurm_mirage.rm.managers import DAEMON_KINDS

_NAMED = 3  # number of jobs that a reason names
SHOWN = 5
"""Number of daemons that a reason names."""


def broken(record: RunRecord) -> list[tuple[str, int, str]]:
    """Events that are caused by the emulation and must not happen to any job: kind, number of jobs, description."""
    table = record.jobs.join(record.evidence, on="id", maintain_order="left")
    state, failed = col("state"), col("state").is_in(["FAILED", "BOOT_FAIL", "OUT_OF_MEMORY"])
    # Tolerance for rounding errors of floats.
    within_limit = col("runtime") < col("limit") * (1 - 1e-9)
    node_daemon = record.names.node_daemon
    slack = "" if table["limit_extended"].any() else "OVERRUN=extend gives limits slack, or "
    rules = [
        ("lost", state == "LOST", "submitted and not in any record"),
        ("not ended", state.is_in(NOT_ENDED), "not ended when the records were collected"),
        (
            "false timeout",
            (state == "TIMEOUT") & within_limit & ~col("id").is_in(events_of_run.killed_jobs(record).implode()),
            f"killed at a time limit above the run time: {slack}{remedy(record)}",
        ),
        (
            "launch failure",
            failed & ~col("recorded"),
            f"failed at launch, without a record of sigsleep: see the logs of {node_daemon}",
        ),
        (
            "failure",
            failed & col("recorded"),
            f"failed after the start, which sigsleep does not do by itself: see the logs of {node_daemon}",
        ),
        (
            "node failure",
            (state == "NODE_FAIL") & ~col("id").is_in(events_of_run.failed_jobs(record).implode()),
            "ended by a node failure",
        ),
        ("cancelled", (state == "CANCELLED") & ~col("cancel_wanted"), "cancelled, but not by the workload"),
    ]
    return [
        *((kind, table.filter(condition).height, description) for kind, condition, description in rules),
        ("not submitted", record.replay.unsubmitted, "of the plan never submitted"),
    ]


def foreign(record: RunRecord) -> list[str]:
    """Reason for jobs that the run did not submit, with the first of them."""
    if record.tables.foreign.is_empty():
        return []
    count = record.tables.foreign.height
    first = record.tables.foreign.select("name", "slurm_id", "user").head(_NAMED).iter_rows()
    named = [f"{name} {arrays.word(job_id)} {user}" for name, job_id, user in first]
    more = ["..."] if count > _NAMED else []
    words = f"{counted(count, 'job')} that this run did not submit ran or waited in the cluster ({', '.join([*named, *more])})"
    return [f"{words}: cancel what is left of them, and repeat the run"]


def troubled(
    record: RunRecord, result: Mapping[str, Any], figures: Mapping[str, Any], thresholds: Thresholds, nodes: int
) -> list[str]:
    """Reasons from the replay, the nodes and the daemons. nodes: of the machine"""
    reasons, names = [], record.names
    if "ended" not in result:
        reasons.append(f"the replay has not finished ({result.get('message') or 'see replay.log'})")
    if figures["released"]:
        failures = counted(figures["released"], "launch failure")
        reasons.append(f"{failures} after which {names.manager} held the job: see the logs of {names.node_daemon}")
    not_responding = figures["nodes_not_responding"] or 0
    if not_responding > thresholds.nodes_not_responding:
        silent = counted(not_responding, "node")
        reasons.append(f"{silent} did not respond at some time of the run; allowed: {thresholds.nodes_not_responding}")
    kind, most = max(figures["nodes_lacking_most"].items(), key=lambda one: one[1], default=(SILENT, 0))
    if (lacking := figures["nodes_lacking"] or 0.0) > thresholds.nodes_lacking_share and kind != SILENT:
        share = f"the machine lacked {100 * lacking:.2g} % of its node time, over {100 * thresholds.nodes_lacking_share:g} %"
        reasons.append(f"{most} of {nodes} nodes were {LACKING[kind]}: {share}")
    messages = figures["messages"] or {}
    if (lost := messages.get(NODE_DOWN, 0) - events_of_run.explained_nodes(record)) > 0:
        reasons.append(f"{names.controller} set nodes down {counted(lost, 'time')}: see its log")
    known = {kind: count for kind, count in messages.items() if kind not in NOT_JUDGED}
    count = max(0, sum(known.values()) - events_of_run.explained_complaints(record))
    allowed = thresholds.messages_share * record.jobs.height
    if count > allowed:
        kinds = ", ".join(f"{kind}: {number}" for kind, number in sorted(known.items(), key=lambda item: -item[1]))
        renewed = messages.get(CONNECTION_RENEWED)
        kinds += f"; not counted: {CONNECTION_RENEWED}: {renewed}" if renewed else ""
        reasons.append(
            f"{names.controller} and {names.node_daemon} complained {counted(count, 'time')}, over {allowed:.3g} "
            f"({thresholds.messages_share:.3g} of the jobs): {kinds}"
        )
    return reasons


def causes(complaints: Mapping[str, Any], record: RunRecord) -> list[str]:
    """What went wrong on the hosts during the run: full folders, and ends of daemons that no event of the run explains. These cause
    other reasons."""
    full: list[str] = []
    ended: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    events = complaints.get("events", {})
    for host, of_host in events.items():
        where = f" on {host}" if len(events) > 1 else ""
        for event in of_host:
            if event["event"] == "full":
                full.append(f"no space was left on {event['path']}{where} at {_time_of_day(event)}: free some, and repeat the run")
            else:
                ended.setdefault(event["kind"], []).append((where, event))
    ended = events_of_run.remaining_ends(ended, record, record.names.controller)
    return [*dict.fromkeys(full), *(_of_ended(kind, ended[kind]) for kind in sorted(ended, key=_order))]


def _order(kind: str) -> int:
    """Place of a kind of daemon: others depend on the first ones."""
    return ("farm", *DAEMON_KINDS).index(kind) if kind in DAEMON_KINDS else 0


def _of_ended(kind: str, ended: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Reason that names the ends of daemons of one kind, and how the first of them ended."""
    names = list(dict.fromkeys(event["daemon"] for _, event in ended))
    several = f" of {', '.join(names[:SHOWN])}{' ...' if len(names) > SHOWN else ''}" if names != [kind] else ""
    where, first = ended[0]
    memory = any(event["out_of_memory"] for _, event in ended)
    what_to_do = "take fewer NODES, or a host with more memory" if memory else "repeat the run"
    return (
        f"{kind}{several} ended {counted(len(ended), 'time')} "
        f"({how_it_ended(first)}, at {_time_of_day(first)}{where}): {what_to_do}"
    )


def _time_of_day(event: Mapping[str, Any]) -> str:
    return f"{datetime.fromtimestamp(event['real'], UTC):%H:%M:%S} UTC"


def halts(record: RunRecord) -> str:
    """What was halted, for how long and when, as the subject of a reason."""
    words = {CONTROLLER: f"{record.names.controller} was halted", REPLAY: "the replay's host or process was suspended"}
    clauses = []
    for what, text in words.items():
        halts = [halt for halt in record.replay.halts if halt["what"] == what]
        if halts:
            longest = max(halts, key=lambda halt: float(halt["seconds"]))
            at = datetime.fromtimestamp(longest["since"], UTC)
            times = f"from {at:%H:%M:%S}" if len(halts) == 1 else f"{len(halts)} times, the longest from {at:%H:%M:%S}"
            clauses.append(f"{text} for {sum(halt['seconds'] for halt in halts):.0f} s ({times} UTC)")
    return f"{' and '.join(clauses)}: the time in which no job could start"


def records(record: RunRecord, thresholds: Thresholds) -> list[str]:
    """Reasons for an invalid run because its two records disagree, each with the three most frequent kinds: one if any disagreement
    is not about a time, one if there are more about times than the allowed share of the jobs."""
    if record.tables.disagreements.is_empty():
        return []
    is_structural = col("kind").is_in(sorted({*STRUCTURAL, in_record_only(record.names.manager)}))
    allowed = thresholds.disagreements_share * record.jobs.height
    return [
        *_disagreements(record.tables.disagreements.filter(is_structural), 0.0, "none is allowed", record.names.manager),
        *_disagreements(
            record.tables.disagreements.filter(~is_structural),
            allowed,
            f"over {allowed:.3g} ({thresholds.disagreements_share:.3g} of the jobs)",
            record.names.manager,
        ),
    ]


def _disagreements(found: pl.DataFrame, allowed: float, bound: str, manager: str) -> list[str]:
    count = found.height
    if count <= allowed:
        return []
    kinds = found.group_by("kind").agg(pl.len(), by=col("seconds").median()).sort(["len", "kind"], descending=[True, False])
    shown = ", ".join(
        f"{kind}: {number}" + ("" if by is None else f" (median {by:.3g} s)") for kind, number, by in kinds.head(3).iter_rows()
    )
    return [f"sigsleep's and {manager}'s records disagree {counted(count, 'time')}, {bound}: {shown}"]

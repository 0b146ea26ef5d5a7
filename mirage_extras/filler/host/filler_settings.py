"""Settings of Slurm with which filler jobs give up their nodes, save themselves and go on (mirage_extras/filler/README.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import WrongUse
from ...rm.slurm.conf import OMIT, value_of
from ...rm.slurm.setting_names import named, release_of
from .words import EXIT_REQUEUE

PARTITION = "filler"
"""The partition of the fillers: all nodes, below all other partitions."""
OLDEST = (22, 5)
"""The oldest release that was tried."""
WITH_REQUEUE_DELAY = (25, 11)
"""The first release whose delay before a requeued job starts is a setting of its own (job_mgr.c, _requeue_delay)."""
LEAST_EXPIRY = 5
"""Seconds of cred_expire that Slurm takes at least; a requeued job starts a second later at the earliest."""
MOST_REQUEUES = 60_000
"""Largest number of requeues; Slurm counts them in 16 bits."""
_OFF = ("off", "no", "false", OMIT, "")


def with_fillers(
    settings: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], grace: int, version: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings and partitions of a cluster that has filler jobs, from those that it has without.

    grace: seconds that a preempted filler gets to save itself. version: a release, empty if it is not known. Raises WrongUse if
    jobs cannot be preempted in the way that fillers need.
    """
    preempts = _preempts(settings)
    check(settings, partitions, grace, version)
    changed = dict(settings)
    _set(changed, "PreemptType", "preempt/partition_prio")
    _set(changed, "PreemptMode", "REQUEUE")
    _add_word(changed, "RequeueExit", str(EXIT_REQUEUE))
    # Since 24.05 an end within the grace time counts as one of the few requeues after which a job is held (job_mgr.c,
    # _handle_requeue_limit). Releases before 23.02 do not have the setting, and do not count it.
    _set(changed, "MaxBatchRequeue", MOST_REQUEUES)
    # PreemptParameters=send_user_signal is the same since 23.02; all releases take this one.
    _add_word(changed, "SlurmctldParameters", "preempt_send_user_signal")
    if version and release_of(version) >= WITH_REQUEUE_DELAY:
        _add_word(changed, "SchedulerParameters", "requeue_delay", 0)
    else:
        _add_word(changed, "AuthInfo", "cred_expire", LEAST_EXPIRY)
    lowest = min((_number(partition, "PriorityTier", 1) for partition in partitions), default=1)
    others = []
    for partition in partitions:
        other = dict(partition)
        if lowest < 1:
            _set(other, "PriorityTier", _number(partition, "PriorityTier", 1) + 1)
        if not preempts:
            _set(other, "PreemptMode", "OFF")
        others.append(other)
    own = {
        "name": PARTITION,
        "PriorityTier": 0,
        "PreemptMode": "REQUEUE",
        "GraceTime": grace,
        "MaxNodes": 1,
        "MaxTime": "UNLIMITED",
    }
    return changed, [*others, own]


def check(settings: Mapping[str, Any], partitions: Sequence[Mapping[str, Any]], grace: int, version: str) -> None:
    """Raise WrongUse for settings with which fillers cannot give up their nodes, or would not start."""
    if version and release_of(version) < OLDEST:
        raise _refused(f"Slurm {version} was not tried with fillers; take {named(OLDEST)} or later")
    if grace < 0:
        raise _refused(f"a grace time of {grace} s: 0 or more")
    kind, mode = _text(settings, "PreemptType"), _text(settings, "PreemptMode")
    if kind not in ("", "preempt/none", "preempt/partition_prio"):
        raise _refused(f"PreemptType={kind} of the configuration: fillers need preempt/partition_prio")
    if kind == "preempt/partition_prio" and mode != "requeue" and mode not in _OFF:
        raise _refused(
            f"PreemptMode={mode.upper()} of the configuration: fillers need REQUEUE, so its jobs cannot be preempted otherwise"
        )
    if (exempt := _text(settings, "PreemptExemptTime")) not in ("-1", "") and exempt.strip("-0:"):
        raise _refused(f"PreemptExemptTime={exempt} of the configuration: fillers would keep nodes from other jobs")
    if (scheduler := _text(settings, "SchedulerType")) not in ("", "sched/backfill"):
        raise _refused(f"SchedulerType={scheduler} of the configuration: only sched/backfill starts fillers beside waiting jobs")
    if any(str(partition.get("name", "")).lower() == PARTITION for partition in partitions):
        raise _refused(f"the configuration has a partition {PARTITION}, which is the name of that of the fillers; rename it")


def _preempts(settings: Mapping[str, Any]) -> bool:
    """Whether the jobs of the configuration preempt each other already."""
    return _text(settings, "PreemptType") == "preempt/partition_prio" and _text(settings, "PreemptMode") == "requeue"


def _refused(reason: str) -> WrongUse:
    return WrongUse(reason, parameter="filler")


def _key(settings: Mapping[str, Any], setting: str) -> str:
    return next((key for key in settings if key.lower() == setting.lower()), setting)


def _text(settings: Mapping[str, Any], setting: str) -> str:
    value = settings.get(_key(settings, setting), "")
    # YAML reads an unquoted OFF as false.
    return "off" if value is False else "" if value in (OMIT, None) else value_of(value).strip('"').lower()


def _number(partition: Mapping[str, Any], word: str, default: int) -> int:
    text = _text(partition, word)
    try:
        return int(text) if text else default
    except ValueError:
        raise WrongUse(f"slurm.conf: PartitionName={partition.get('name')}: {word}={text}: a whole number") from None


def _set(settings: dict[str, Any], setting: str, value: Any) -> None:
    settings[_key(settings, setting)] = value


def _add_word(settings: dict[str, Any], setting: str, word: str, value: int | None = None) -> None:
    """Add a word to a list of words, or `word=value` in place of one that is there."""
    key = _key(settings, setting)
    given = settings.get(key, OMIT)
    text = "" if given in (OMIT, None) else value_of(given).strip('"')
    wanted = word if value is None else f"{word}={value}"
    rest = [each.strip() for each in text.split(",") if each.strip() and each.strip().partition("=")[0].lower() != word.lower()]
    settings[key] = ",".join([*rest, wanted])

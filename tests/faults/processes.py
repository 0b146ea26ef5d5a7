"""Processes that are killed or stand still."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import ExitStack

from slurm_mirage.base.processes import start_time

from .lane import CPUS, DONE, ENDED, Ended, Lane, checked, expect, until
from .table import Wrong, fault

STOPPED = 20.0
"""Seconds for which slurmctld is stopped."""
REFUSING = "mirage_faults"
"""Name of the nftables table that refuses connections."""


@fault("replay-killed", "SIGKILL to the replay", "`failed:` says that it was killed; the same command finishes", quick=True)
def replay_killed(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    lane.kill_replay()
    expect(lane.ended(command), ("failed",), r"replay was killed.*same command")
    lane.goes_on()


def _during_run(lane: Lane, pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def _killed(lane: Lane, *names: str, most: int | None = None) -> Ended:
    """Run an experiment and kill processes of these names during the replay; returns how the experiment ended."""
    command = lane.start_experiment()
    lane.until_submitted(command)
    pids = until(lambda: lane.pids(*names), f"a process {names[0]}")[:most]
    _during_run(lane, pids, signal.SIGKILL)
    return lane.ended(command)


@fault("slurmd-killed", "SIGKILL to one slurmd", "`ok:`, or `invalid:` with the node's absence; each job once")
def slurmd_killed(lane: Lane) -> None:
    ended = _killed(lane, "slurmd", most=1)
    expect(ended, ENDED, "" if ended.word in DONE else r"node|slurmd")
    lane.complete()


@fault("slurmds-killed", "SIGKILL to all slurmd", "`ok:`, or `invalid:` with the nodes' absence; each job once")
def slurmds_killed(lane: Lane) -> None:
    ended = _killed(lane, "slurmd")
    expect(ended, ENDED, "" if ended.word in DONE else r"node|slurmd")
    lane.complete()


@fault("slurmctld-killed", "SIGKILL to slurmctld", "`ok:`, or `invalid:` with the time without slurmctld; each job once")
def slurmctld_killed(lane: Lane) -> None:
    ended = _killed(lane, "slurmctld")
    expect(ended, ENDED, "" if ended.word in DONE else r"slurmctld")
    lane.complete()


@fault("farm-killed", "SIGKILL to the farm", "`ok:`, or the reason names the farm; `make cluster` starts it again")
def farm_killed(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    os.kill(lane.farm_pid(), signal.SIGKILL)
    ended = expect(lane.ended(command), (*ENDED, "failed"))
    expect(ended, (ended.word,), "" if ended.word in DONE else "farm")
    lane.goes_on()
    lane.build()


@fault(
    "slurmctld-stopped",
    "SIGSTOP to slurmctld for 20 s",
    "`invalid:`; the reason names slurmctld and for how long it started nothing",
)
def slurmctld_stopped(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    pid = lane.pid_of("slurmctld")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STOPPED)
    os.kill(pid, signal.SIGCONT)
    expect(lane.ended(command), ("invalid",), r"slurmctld.* \d+(\.\d+)? (trace )?s")
    halted = float(lane.validity()["halted"])
    if not STOPPED / 2 <= halted <= 2 * STOPPED:
        raise Wrong(f"halted is {halted:.1f} s after {STOPPED:.0f} s without slurmctld")
    lane.complete()


@fault(
    "registration-refused",
    "connections to all slurmd refused while slurmctld restarts with another CONFIG on the event clock, until it gives one up",
    "`ok:`, as the node is asked again",
)
def registration_refused(lane: Lane) -> None:
    lane.build(SPEED="event", CONFIG="fifo")
    ports = ", ".join(re.findall(r" Port=(\d+)", lane.slurm("scontrol", "--oneliner", "show", "nodes").stdout))
    chain = f"type filter hook output priority 0;\ntcp dport {{ {ports} }} reject with tcp reset"
    with ExitStack() as refused:
        checked(["nft", f"table inet {REFUSING} {{\nchain out {{\n{chain}\n}}\n}}"])
        refused.callback(checked, ["nft", f"delete table inet {REFUSING}"])
        command = lane.start("cluster", NODES=lane.nodes, CPUS=CPUS, SPEED="event", CONFIG="backfill")
        until(lambda: "unknown*" in lane.slurm("sinfo", "--noheader", "--format=%T").stdout, "a node that slurmctld has given up")
    expect(lane.ended(command), ("ok",))


@fault("munged-killed", "SIGKILL to munged", "`ok:`, or the reason names munged; each job once")
def munged_killed(lane: Lane) -> None:
    ended = _killed(lane, "munged")
    expect(ended, (*ENDED, "failed"))
    expect(ended, (ended.word,), "" if ended.word in DONE else "munge")
    lane.goes_on()


@fault(
    "munged-stopped",
    "SIGSTOP to munged until the experiment has ended",
    "the experiment ends, and the reason names munge; SIGCONT and the same command finish",
)
def munged_stopped(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    pid = lane.pid_of("munged")
    started = start_time(pid)
    os.kill(pid, signal.SIGSTOP)
    try:
        ended = lane.ended(command, 240)
    finally:
        if start_time(pid) == started:
            os.kill(pid, signal.SIGCONT)
    expect(ended, (*ENDED, "failed"))
    expect(ended, (ended.word,), "" if ended.word in DONE else "munge")
    lane.goes_on()


@fault("job-killed", "SIGKILL to the program of a job", "`invalid:` counts the failed job; each job once")
def job_killed(lane: Lane) -> None:
    expect(_killed(lane, "sigsleep", most=1), ("invalid",), r"1 job|killed|failed")
    lane.complete()
    if lane.states()["COMPLETED"] < sum(lane.states().values()) - 1:
        raise Wrong(f"more than one job failed: {dict(lane.states())}")


@fault(
    "job-cancelled", "`scancel` of a job of the run by the instance's user", "`invalid:` counts the cancelled job; each job once"
)
def job_cancelled(lane: Lane) -> None:
    command = lane.start_experiment()
    lane.until_submitted(command)
    ids = lane.slurm("squeue", "--noheader", "--format=%A").stdout.split()
    if not ids:
        raise Wrong("there is no job to cancel")
    lane.slurm("scancel", ids[0])
    expect(lane.ended(command), ("invalid",), r"1 .*cancelled")
    lane.complete()

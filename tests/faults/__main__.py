"""`python -m tests.faults`: injects all faults, those that FAULTS names, or the quick ones (`python -m tests.faults quick`).

The last line begins with `ok:`, `failed:` or `wrong use:`; the exit code is 0, 1 or 2.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from importlib import import_module
from string import ascii_lowercase

from mirage import ROOT
from tests.faults import (  # noqa: F401
    campaigns,
    clock,
    disks,
    events,
    files,
    hosts,
    inputs,
    interrupts,
    links,
    neighbours,
    processes,
    secrets,
)
from tests.faults.bed import Bed
from tests.faults.lane import Lane
from tests.faults.table import FAULTS, Fault, Result, Skipped, Wrong, write_page

MOST_LANES = 4
for path in sorted(ROOT.glob("mirage_extras/*/tests/faults.py")):
    import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def main(arguments: list[str]) -> int:
    """Run the selected faults. Returns the exit code."""
    names = os.environ.get("FAULTS", "").split()
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        print(f"wrong use: FAULTS: there is no fault {unknown[0]}; it may be some of: {' '.join(FAULTS)}")
        return 2
    if os.geteuid() != 0:
        print("wrong use: root: faults are injected into processes and files of several users; run it as root or with sudo")
        return 2
    is_quick = arguments == ["quick"]
    faults = [FAULTS[name] for name in names] or [fault for fault in FAULTS.values() if fault.quick or not is_quick]
    results = run(faults, os.environ.get("CLUSTER") or "faults-")
    wrong = [result for result in results if result.judgement.startswith("wrong")]
    skipped = [result for result in results if result.judgement.startswith("skipped")]
    for result in [*skipped, *wrong]:
        print(f"{result.name}: {result.judgement}")
    write_page()
    if wrong:
        print(f"failed: {len(wrong)} of {len(faults)} faults: {', '.join(result.name for result in wrong)} (results/faults.md)")
        return 1
    if len(results) < len(faults):
        print(f"failed: interrupted after {len(results)} of {len(faults)} faults, of which none was wrong")
        return 1
    print(f"ok: {len(faults) - len(skipped)} faults, {len(skipped)} skipped, results/faults.md")
    return 0


def run(faults: list[Fault], prefix: str) -> list[Result]:
    """Inject the faults: those of one host in lanes side by side, one after another in each, then those that need several hosts."""
    results: list[Result] = []
    waiting: queue.SimpleQueue[Fault] = queue.SimpleQueue()
    single = [fault for fault in faults if not fault.on_bed]
    for fault in single:
        waiting.put(fault)
    # One processor stays free: an undisturbed experiment must be valid.
    lanes = max(1, min(MOST_LANES, (os.cpu_count() or 1) - 1, len(single)))

    def work(lane: Lane) -> None:
        with suppress(queue.Empty):
            while not interrupted.is_set():
                judge(waiting.get_nowait(), lane)

    def judge(fault: Fault, lane: Lane) -> None:
        result = one(fault, lane)
        results.append(result)
        print(f"[{len(results)}/{len(faults)}] {result.seconds:4.0f} s  {fault.name}: {result.judgement}", flush=True)

    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        # The faults that are being judged are ended properly.
        signal.signal(number, lambda *_: interrupted.set())
    threads = [threading.Thread(target=work, args=(Lane(f"{prefix}{letter}"),)) for letter in ascii_lowercase[:lanes]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    on_bed = [fault for fault in faults if fault.on_bed]
    if on_bed and not interrupted.is_set():
        with Bed(f"{prefix}bed") as bed:
            for fault in on_bed:
                if interrupted.is_set():
                    break
                judge(fault, bed.lane())
    return results


def one(fault: Fault, lane: Lane) -> Result:
    """Inject one fault and judge it. Whatever happens, the lane's cluster is removed afterwards."""
    result = Result(fault.name)
    began = time.monotonic()
    try:
        lane.begin(fault.name)
        fault.inject(lane)
        result.judgement = "right"
    except Wrong as error:
        result.judgement = f"wrong: {lane.general(str(error))}"
    except Skipped as error:
        result.judgement = f"skipped: {error}"
    except Exception as error:
        traceback.print_exc()
        result.judgement = f"wrong: the fault could not be injected: {type(error).__name__}: {lane.general(str(error))}"
    result.judgement = " ".join(tear_down(lane, result).split())
    result.endings = lane.lines
    result.seconds = round(time.monotonic() - began, 1)
    result.store()
    return result


def tear_down(lane: Lane, result: Result) -> str:
    """Undo the fault and remove the cluster; returns the judgement with what make teardown did wrong."""
    try:
        lane.finish()
        if lane.inventory or lane.left():
            ended = lane.start("teardown").end()
            if ended.word != "ok":
                lane.lines.append(f"make teardown: {lane.general(ended.line)}")
                if result.is_right:
                    return f"wrong: make teardown: {lane.general(ended.line)}"
        result.left = [lane.general(what) for what in lane.left()]
        if result.left:
            lane.clear()
        if result.left and result.is_right:
            return f"wrong: left after make teardown: {', '.join(result.left)}"
    except Exception as error:
        traceback.print_exc()
        return f"wrong: {type(error).__name__} at the end: {error}" if result.is_right else result.judgement
    return result.judgement


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

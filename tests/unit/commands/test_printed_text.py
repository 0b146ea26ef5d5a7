"""What the program prints of text from outside: control characters planted in files, their names, knobs and records of runs.

It runs in a copy of the project, with commands that need no cluster.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from copies import left_out
from test_check import a_run
from test_cli import PROGRAM, ROOT, environment

SOFT = "PLANTED\u202egnp\u2066\u200b\x85##[error]z"
"""Fits into a log, which has to be text."""
PLANT = "PLANTED\x1b[31m\x1b]0;t\x07\x9b2J\x7f\u202egnp\u2066\u200b\u2028##[error]z"
"""Fits into a field of a line of text."""
LINES = f"{PLANT}\r\n::error file=a::planted\rok: planted"
"""Fits into the name of a file, a knob, or a text in JSON."""
SWF = f"""; Computer: {SOFT}
; MaxProcs: 8
; TimeZoneString: {SOFT}
; Queue: 1 {SOFT}
; Note: {SOFT}
1 0 0 30 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1
2 10 5 30 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
"""
SACCT = f"""JobID|JobName|User|Account|Partition|QOS|Submit|Start|End|State|TimelimitRaw|AllocCPUS|Reason|Constraints
1|{SOFT}|{SOFT}|{SOFT}|{SOFT}|{SOFT}|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:10:00|COMPLETED|60|4|{SOFT}|{SOFT}
2|{SOFT}|{SOFT}|{SOFT}|{SOFT}|{SOFT}|2026-03-01T00:00:10|2026-03-01T00:10:00|2026-03-01T00:12:00|{SOFT}|{SOFT}|4|x|{SOFT}
3|a|b|c|d|e|2026-03-01T00:00:20|2026-03-01T00:12:00|2026-03-01T00:14:00|FAILED|60|4|x|
"""
CONF = """SchedulerType=sched/backfill
NodeName=n[1-4] CPUs=2
PartitionName=batch Nodes=ALL Default=YES
"""
CHANGED = CONF.replace("backfill", f"backfill\nSchedulerParameters=bf_interval=30{PLANT}\nSchedulerTimeSlice=\x1b[2J", 1)
LOG = f"log {LINES}.swf".replace("/", "")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the program, with files of a stranger and two finished runs that he has changed."""
    project = tmp_path_factory.mktemp("project")
    for folder in ("mirage", "module_utils", "configs", "inventories"):
        shutil.copytree(ROOT / folder, project / folder, ignore=left_out)
    texts = {LOG: SWF, "sacct.txt": SACCT, "before.conf": CONF, "after.conf": CHANGED, "events.csv": f"instant,action\n1,{PLANT}\n"}
    texts |= {"three.swf": SWF.replace(SOFT, "x")}
    texts |= {
        "include.conf": f"Include {PLANT}\n{PLANT}=1\n",
        "classes.yml": f"- {{count: 1, cpus: 1, {json.dumps(PLANT)}: 2}}\n",
        "garbage": LINES,
        "name.yml": f"{json.dumps(PLANT)}: 1\n",
        "value.yml": f"NODES: {json.dumps(PLANT)}\n",
    }
    for name, text in texts.items():
        (project / name).write_text(text)
    for number, name in enumerate(("a", "b")):
        run = project / "results" / name
        a_run(run, 1, slower=1.0 + number)
        experiment = json.loads((run / "experiment.json").read_text())
        experiment["inputs"] |= {"CONFIG": f"{LINES}{number}", f"{LINES} NAME": f"{number}"}
        experiment["versions"] = {LINES: f"{LINES}{number}"}
        (run / "experiment.json").write_text(json.dumps(experiment))
        metrics = json.loads((run / "metrics.json").read_text())
        metrics["validity"] |= {"verdict": "invalid", "valid": False, "reasons": [LINES]}
        metrics["excluded"] = {LINES: 1}
        metrics["null_reasons"] = dict.fromkeys(metrics["null_reasons"], LINES)
        (run / "metrics.json").write_text(json.dumps(metrics))
        lines = (run / "waits.csv").read_text().splitlines() if (run / "waits.csv").exists() else ["job,from,to,cause,reason"]
        (run / "waits.csv").write_text("\n".join([lines[0], f'3,0.0,300.0,{PLANT},"{LINES}"']) + "\n")
    return project


@pytest.fixture(scope="module")
def printed(project: Path) -> Iterator[Callable[..., str]]:
    """printed(target, knobs): what `python -m mirage target` prints, by a process that runs one command after the other."""
    words, pipe = [sys.executable, "-c", PROGRAM], subprocess.PIPE
    with subprocess.Popen(words, cwd=project, env=environment({}), stdin=pipe, stdout=pipe, text=True) as program:
        assert program.stdin is not None and program.stdout is not None

        def ask(target: str, given: dict[str, str]) -> str:
            print(json.dumps([target, environment(given)]), file=program.stdin, flush=True)
            return "".join(json.loads(program.stdout.readline())[1:])

        yield ask


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("metrics", {"TRACE": LOG}),
        ("metrics", {"TRACE": "sacct.txt", "QUEUES": "nosuch"}),
        ("metrics", {"TRACE": "garbage"}),
        ("metrics", {"TRACE": LINES}),
        ("metrics", {"TRACE": LOG, "OUT": f"{LINES}/m.json"}),
        ("metrics", {"RUN": "a"}),
        ("metrics", {"RUN": LINES}),
        ("simulate", {"TRACE": LOG, "OUT": f"{PLANT}.swf".replace("/", "")}),
        ("simulate", {"TRACE": "sacct.txt", "POLICY": LINES}),
        ("workload", {"TRACE": LOG, "OUT": f"{LINES}.swf".replace("/", "")}),
        ("workload", {"TRACE": "sacct.txt", "OUT": "w.swf", "USERS": LINES}),
        ("workload-report", {"TRACE": LOG, "OUT": f"report {LINES}".replace("/", "")}),
        ("workload-report", {"TRACE": "sacct.txt", "OUT": LINES}),
        ("check", {"RUN": "a"}),
        ("check", {"RUN": LINES}),
        ("why", {"RUN": "a", "JOB": "3"}),
        ("diff", {"RUNS": "a b"}),
        ("diff", {"RUNS": f"a {LINES.split()[0]}"}),
        ("gate", {"BEFORE": "before.conf", "AFTER": "after.conf", "TRACE": "three.swf", "BUDGET": "1s", "RUN": "g"}),
        ("gate", {"BEFORE": "before.conf", "AFTER": "include.conf", "TRACE": "three.swf"}),
        ("gate", {"BEFORE": "before.conf", "AFTER": LINES, "TRACE": LOG}),
        ("experiment", {"TRACE": LOG, "EVENTS": "events.csv"}),
        ("experiment", {"TRACE": "three.swf", "CLASSES": "classes.yml"}),
        ("experiment", {"CONFIG": LINES}),
        ("experiment", {"RUN_FILE": "name.yml"}),
        ("experiment", {"RUN_FILE": "value.yml"}),
        ("simulate", {"RUN_FILE": LINES}),
        ("report", {"RUN": LINES}),
        (LINES, {}),
    ],
)
def test_it_is_printed_in_lines_of_printable_characters(
    project: Path, printed: Callable[..., str], target: str, given: dict[str, str]
) -> None:
    text = printed(target, given)
    assert "PLANTED" in text or "PLANTED" not in f"{target} {given}"
    assert_harmless(text)
    for path in (*project.glob("results/*/*.md"), *project.glob("results/.logs/*.log")):
        assert_harmless(path.read_text())


def assert_harmless(text: str) -> None:
    for line in text.removesuffix("\n").split("\n"):
        assert line.isprintable(), line
        assert not re.search(r"^\s*::|##\w*\[|^ok: planted", line), line


def test_a_process_of_its_own_and_a_name_that_is_no_text(project: Path) -> None:
    name = os.fsdecode(b"caf\xe9\x9b\x1b[2J.swf")
    (project / name).write_text(SWF)
    words = [sys.executable, "-m", "mirage", "metrics"]
    done = subprocess.run(words, cwd=project, env=environment({"TRACE": name}), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0 and done.stdout.decode().endswith("ok: 2 jobs of caf\\udce9\\udc9b\\x1b[2J.swf\n")
    assert_harmless((done.stdout + done.stderr).decode())

"""Planted words on a real cluster: SLURM_CONF of an archive, SITE, EVENTS and AFTER of a gate. Nothing of them is run or read.

Builds an instance `planted` of its own and removes it again, as root:

    pytest -m cluster tests/cluster/test_planted_words_real.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/unit")]
from captures import BEGIN, COLUMNS, EVENT_COLUMNS, capture, job, table  # noqa: E402

from mirage.knobs.table import BY_NAME  # noqa: E402
from tests.fuzz.planted import words  # noqa: E402

pytestmark = [pytest.mark.cluster, pytest.mark.skipif(os.geteuid() != 0, reason="skipped: a cluster needs root")]

CLUSTER, SECRET, PATIENCE = "planted", "TOPSECRET-first-line", 900
CONF = """ClusterName=s_1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters={}
NodeName=c[1-2] CPUs=16 Feature="{}"
PartitionName=cpu Nodes=c[1-2] Default=YES
"""


@pytest.fixture(scope="module")
def results() -> Iterator[list[Path]]:
    """Folders of results, which are removed with the instance."""
    folders: list[Path] = []
    yield folders
    mirage("teardown", CLUSTER=CLUSTER)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a word that is run leaves a file, whoever runs it."""
    folder = tmp_path / "canary"
    folder.mkdir()
    for path in (folder, *list(folder.parents)[:3]):
        path.chmod(0o777 if path == folder else 0o755)
    (folder / "secret").write_text(f"{SECRET}\n")
    yield folder
    assert [path.name for path in folder.iterdir()] == ["secret"]


def mirage(target: str, **knobs: str) -> str:
    """Run a target; what it prints."""
    outside = {name: value for name, value in os.environ.items() if name not in BY_NAME}
    environment = {**outside, "MIRAGE_GIVEN": " ".join(knobs), **knobs}
    command = [sys.executable, "-m", "mirage", target]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL
    )
    assert SECRET not in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_a_site_and_its_events(results: list[Path], canary: Path, tmp_path: Path) -> None:
    planted = {word.kind: word.text for word in words(canary) if word.kind != "newline"}
    settings = ",".join(["bf_interval=30", *planted.values()])
    jobs = [job(number, ElapsedRaw=60, ReqMem="0", ReqTRES="cpu=4,node=1", AllocTRES="cpu=4,node=1") for number in range(1, 5)]
    outages = [
        ("s_1", "Node", "", "c2", BEGIN + 20 * number, BEGIN + 20 * number + 9, "DOWN", "", "u_b", text)
        for number, text in enumerate(planted.values(), 1)
    ]
    parts = {
        "conf/slurm.conf": CONF.format(f'"{settings}"', planted["html"]),
        "conf/gres.conf": None,
        "conf/topology.conf": None,
        "sacct/20261031T230000Z.txt": table(COLUMNS, *jobs),
        "sacctmgr/event.txt": table(EVENT_COLUMNS, *outages),
    }
    archive = capture(tmp_path, parts)
    events = tmp_path / "events.csv"
    events.write_text("".join(f'{200 + at},drain,c1,"{text}"\n' for at, text in enumerate(planted.values())) + "300,resume,c1,\n")
    results.append(ROOT / "results" / f"planted-{os.getpid()}")
    shown = mirage("experiment", SITE=str(archive), EVENTS=str(events), CLUSTER=CLUSTER, RUN=results[-1].name)
    assert shown.splitlines()[-1].split(":")[0] in ("ok", "invalid", "inconclusive"), shown[-2000:]
    assert f"SchedulerParameters={settings}" in (results[-1] / "slurm.conf").read_text().replace('"', "")
    reasons = (results[-1] / "events.csv").read_text()
    assert all(text.replace('"', '""') in reasons for text in planted.values())
    assert len((results[-1] / "jobs.csv").read_text().splitlines()) == 5


def test_a_gate(results: list[Path], canary: Path, tmp_path: Path) -> None:
    conf = CONF.replace('Feature="{}"', "")
    planted = {word.kind: word.text for word in words(canary)}
    settings = ",".join(["bf_interval=31", *(text for kind, text in planted.items() if kind != "newline")])
    (tmp_path / "before.conf").write_text(conf.format("bf_interval=30"))
    (tmp_path / "after.conf").write_text(conf.format(f'"{settings}"') + f"Include {canary}/secret\n# {planted['newline']}")
    results.append(ROOT / "results" / f"planted-gate-{os.getpid()}")
    given = {"BEFORE": str(tmp_path / "before.conf"), "AFTER": str(tmp_path / "after.conf"), "CLUSTER": CLUSTER, "JOBS": "4"}
    shown = mirage("gate", RUN=results[-1].name, BUDGET="1min", **given)
    assert shown.splitlines()[-1].startswith("wrong use: "), shown[-2000:]
    (tmp_path / "after.conf").write_text(conf.format(f'"{settings}"'))
    shown = mirage("gate", RUN=results[-1].name, BUDGET="1min", **given)
    assert "gate" in shown.splitlines()[-1], shown[-2000:]
    assert (results[-1] / "gate.md").exists()

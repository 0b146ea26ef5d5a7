"""mirage-capture on a real cluster with slurmdbd: as SlurmUser, and as an ordinary user who may not see the jobs of others.

Needs a running instance on this host with ACCOUNTING=yes and at least two nodes of two processors, and root. It adds accounts and
users, submits jobs, drains a node for a moment, and sets PrivateData for one test:

    SLURM_MIRAGE_INSTANCE=/var/lib/slurm-mirage/mirage pytest -m cluster tests/cluster/test_capture_real.py
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirage.commands import capture
from mirage.commands.shell import command as shell_command
from mirage.site.archive import Archive, open_archive
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.processes import INSTANCE_VARIABLE

pytestmark = pytest.mark.cluster

PATIENCE = 120.0
USER, ACCOUNT = "games", "quokkalab"
"""An ordinary user of Debian, and an account."""
PLANTED = (
    ACCOUNT,
    "aliceblue",
    "thesisjob",
    "hunter2",
    "/home/",
    "flexhost",
    "example.org",
    "numbatmaint",
    "secretproject",
    "bilbyqos",
)
PLANT = f"""
sacctmgr -iQ add account {ACCOUNT} description=secretproject
sacctmgr -iQ add user {USER} account={ACCOUNT}
sacctmgr -iQ add user aliceblue account={ACCOUNT}
sacctmgr -iQ add user "$USER" account={ACCOUNT}
sacctmgr -iQ add qos {ACCOUNT}_bilbyqos
sacctmgr -iQ add qos longrun
sacctmgr -iQ modify account where name={ACCOUNT} set qos=normal,longrun,{ACCOUNT}_bilbyqos
sacctmgr -iQ add resource name=matlab count=10 server=flexhost.example.org servertype=flexlm type=license percentallowed=50 \
    cluster="$(scontrol show config | sed -n 's/^ClusterName *= //p')"
scontrol create reservation reservationname=numbatmaint starttime=now+1hour duration=60 "users=$USER" nodecnt=1 flags=ignore_jobs
scontrol update nodename="$1" state=drain reason="disk, ask aliceblue@mail.example.org"
scontrol update nodename="$1" state=resume
cd /tmp
sbatch -A {ACCOUNT} -J thesisjob --comment "of aliceblue" -o /dev/null --qos=longrun -N 2 --ntasks-per-node=2 \
    -t 10 --wrap "srun true"
sbatch -A {ACCOUNT} -J "thesisjob | two" -o /dev/null -n 1 --array=0-3%2 -t 5 --wrap 'echo "a|b"
echo hunter2'
"""


@pytest.fixture(scope="module")
def instance() -> Path:
    directory = os.environ.get(INSTANCE_VARIABLE)
    if not directory:
        pytest.skip(f"skipped: {INSTANCE_VARIABLE} names no running instance")
    if os.geteuid() != 0 or not (Path(directory) / "etc" / "slurmdbd.conf").exists():
        pytest.skip("skipped: needs root, and an instance with ACCOUNTING=yes")
    return Path(directory)


def inside(instance: Path, *words: str) -> str:
    """The output of a command of the instance's user."""
    entered = shell_command(instance, instance.name)
    whole = [*entered[: entered.index("bash")], *words]
    return subprocess.run(whole, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def planted(instance: Path) -> list[str]:
    """Names of the instance's nodes, after jobs have run in it that have planted words everywhere."""
    nodes = inside(instance, "sinfo", "-hN", "-o", "%n").split()
    inside(instance, "bash", "-c", PLANT, "plant", nodes[-1])
    give_up = time.monotonic() + PATIENCE
    while inside(instance, "squeue", "-h", "-A", ACCOUNT):
        assert time.monotonic() < give_up, inside(instance, "squeue")
        time.sleep(1)
    inside(instance, "sleep", "3")  # the window ends now, and slurmdbd has the ends
    return nodes


def run(words: list[str], path: Path) -> str:
    """Run the script into an archive, and return what it said."""
    with capture.SCRIPT.open("rb") as script, path.open("wb") as archive:
        ended = subprocess.run(words, stdin=script, stdout=archive, stderr=subprocess.PIPE, check=True)
    return ended.stderr.decode()


def as_operator(instance: Path, path: Path) -> str:
    return run(capture.command(instance, instance.name, "", ""), path)


def as_user(instance: Path, path: Path, home: Path) -> str:
    """As USER, who may pass the folder of the instance's munge socket: at a site the socket is open to everyone."""
    words = capture.command(instance, instance.name, "", "")
    begin, end = words.index("setpriv"), words.index("env")
    drop = [
        "setpriv",
        "--reuid",
        USER,
        "--regid",
        USER,
        "--clear-groups",
        "--inh-caps",
        "+dac_override",
        "--ambient-caps",
        "+dac_override",
    ]
    given = [re.sub(r"^(USER|LOGNAME)=.*", rf"\1={USER}", word) for word in words[end:]]
    given = [re.sub(r"^(HOME|--chdir)=.*", rf"\1={home}", word) for word in given]
    return run([*words[:begin], *drop, "--", *given], path)


def clean(archive: Archive) -> None:
    """No planted word is in the archive: neither in a part nor in the manifest."""
    content = archive.path.read_bytes().lower()
    for word in PLANTED:
        assert word.encode() not in content, word


def test_an_operator_takes_all_and_shows_no_name(instance: Path, planted: list[str], tmp_path: Path) -> None:
    said = as_operator(instance, tmp_path / "a.tar")
    taken = open_archive(tmp_path / "a.tar")
    clean(taken)
    assert (taken.by, taken.not_allowed) == ("operator", ()) and "slurm.conf: AccountingStoragePass" in taken.left_out
    assert "rows of jobs" in said and instance.name.encode() not in (tmp_path / "a.tar").read_bytes().replace(
        b"mirage-capture", b""
    )
    last = taken.pieces("sacct")[-1]
    rows = [row for row in taken.rows(last) if "--array=0-3%2" in row["submitline"] or "--qos=longrun" in row["submitline"]]
    assert len(rows) % 5 == 0 and len({row["account"] for row in rows}) == 1  # a job and four tasks, each time this test has run
    job = next(row for row in rows if "longrun" in row["submitline"])
    account, name = job["account"], job["jobname"]
    expected = f"sbatch --account={account} --job-name={name} --qos=longrun --nodes=2 --ntasks-per-node=2 --time=10 script"
    assert job["submitline"] == expected and job["allocnodes"] == "2"
    assert re.fullmatch(r"[a-z]+\[?\d.*", job["nodelist"])
    # The same node in scontrol, sacct and slurm.conf.
    prefix = re.sub(r"[\d\[].*", "", job["nodelist"])
    nodes = [re.search(r"NodeName=(\S+)", line) for line in taken.lines("scontrol/node.txt")]
    assert {node[1] for node in nodes if node} == {re.sub(r"^\D+", prefix, node) for node in planted}
    assert any(line.startswith(f"NodeName={prefix}") for line in taken.lines("conf/slurm.conf"))
    # The same account in sacctmgr, and the step's tasks.
    assert account in {row["account"] for row in taken.rows("sacctmgr/assoc.txt")}
    assert {row["ntasks"] for row in taken.rows(last.replace("sacct/", "steps/")) if row["jobidraw"] == f"{job['jobidraw']}.0"} == {
        "4"
    }
    assert {"normal", "longrun"} <= {row["name"] for row in taken.rows("sacctmgr/qos.txt")}


def test_in_the_clear_the_planted_names_are_there_and_secrets_are_not(instance: Path, planted: list[str], tmp_path: Path) -> None:
    words = [word.replace("python3 -", "python3 - --clear") for word in capture.command(instance, instance.name, "", "")]
    run(words, tmp_path / "a.tar")
    taken = open_archive(tmp_path / "a.tar")
    content = (tmp_path / "a.tar").read_bytes().decode()
    assert taken.is_clear and all(word in content for word in (ACCOUNT, "aliceblue", "thesisjob", "numbatmaint", "flexhost"))
    assert "hunter2" not in content and "munge.socket" not in content


def test_the_same_key_gives_the_same_names(instance: Path, planted: list[str], tmp_path: Path) -> None:
    for name in ("a.tar", "b.tar"):
        as_operator(instance, tmp_path / name)
    first, second = (open_archive(tmp_path / name) for name in ("a.tar", "b.tar"))
    for part in ("sacctmgr/assoc.txt", "scontrol/partition.txt", "conf/slurm.conf", "scontrol/reservation.txt"):
        assert first.data(part) == second.data(part)


@contextmanager
def private_data(instance: Path, words: str) -> Iterator[None]:
    """PrivateData of slurm.conf and slurmdbd.conf for a moment."""
    files = {instance / "etc" / name: (instance / "etc" / name).read_text() for name in ("slurm.conf", "slurmdbd.conf")}
    try:
        for path, text in files.items():
            path.write_text(f"{text}\nPrivateData={words}\n")
        inside(instance, "bash", "-c", "scontrol reconfigure && sacctmgr reconfigure")
        give_up = time.monotonic() + PATIENCE
        while (
            len(re.findall(r"PrivateData += \w*jobs|PrivateData += \w+,jobs", inside(instance, "sacctmgr", "show", "config"))) < 2
        ):
            assert time.monotonic() < give_up
            time.sleep(0.5)
        yield
    finally:
        for path, text in files.items():
            path.write_text(text)
        inside(instance, "bash", "-c", "scontrol reconfigure && sacctmgr reconfigure")


def test_an_ordinary_user_sees_the_own_jobs_only_and_the_archive_says_so(
    instance: Path, planted: list[str], tmp_path: Path
) -> None:
    home = Path(subprocess.run(["mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    try:
        subprocess.run(["chown", USER, home], check=True)
        as_user(instance, tmp_path / "open.tar", home)
        taken = open_archive(tmp_path / "open.tar")
        clean(taken)
        assert (taken.by, taken.not_allowed) == ("user", ()) and USER.encode() not in (tmp_path / "open.tar").read_bytes()
        with private_data(instance, "jobs,users,accounts"):
            said = as_user(instance, tmp_path / "private.tar", home)
    finally:
        subprocess.run(["rm", "-rf", home], check=True)
    assert "NOT ALLOWED to see: jobs of other users: PrivateData has jobs" in said
    with pytest.raises(WrongUse, match="no job in its window; the capture took it as user, who may not see accounts"):
        open_archive(tmp_path / "private.tar")

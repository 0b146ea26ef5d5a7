"""Users of a log as users of Slurm: their names, the preloaded library, and what is started with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.processes import NAMED_USERS
from slurm_mirage.clock import instance_clock
from slurm_mirage.rm.slurm import daemons, job_users
from slurm_mirage.rm.slurm.daemons import Layout, specifications

SOURCE = Path(__file__).parents[3] / "files/job_users"
CALLER = os.getuid()
PROBE = f"""
import os, pwd, sys
ids = [int(word) for word in sys.argv[2:]]
entry = pwd.getpwnam("u12")
print(entry.pw_uid, entry.pw_gid == os.getgid(), pwd.getpwuid(entry.pw_uid).pw_name, os.getgrouplist("u12", 60) == [60])
for name in ("u", "u012", "u1x", "u{job_users.COUNT}", "u99999999999999999999", "U1"):
    try:
        print(name, pwd.getpwnam(name).pw_uid)
    except KeyError:
        pass
print(pwd.getpwnam("u0").pw_uid, pwd.getpwnam("u{job_users.COUNT - 1}").pw_uid)
print(pwd.getpwuid(0).pw_name, pwd.getpwnam("root").pw_uid)
os.chown(sys.argv[1], entry.pw_uid, -1)
print(os.stat(sys.argv[1]).st_uid == {CALLER}, os.getuid())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job_users")
    subprocess.run(["make", "-sC", str(SOURCE), f"OUT={folder}"], check=True)
    return folder / "job_users.so"


def test_names_and_ids() -> None:
    assert [job_users.name_of(user) for user in (-1, 0, 12)] == ["", "u0", "u12"]
    with pytest.raises(WrongUse, match=r"^trace: user 200000000 is above 199999999"):
        job_users.name_of(job_users.COUNT)


def test_the_library_has_the_same_numbers() -> None:
    source = (SOURCE / "job_users.c").read_text()
    numbers = dict(re.findall(r"(FIRST|COUNT) = (\d+)", source))
    assert numbers == {"FIRST": str(job_users.FIRST_ID), "COUNT": str(job_users.COUNT)}
    named = dict(re.findall(r"NAMED_(FIRST|COUNT) (\d+)U", source))
    assert named == {"FIRST": str(NAMED_USERS.start), "COUNT": str(len(NAMED_USERS))}


def test_what_a_program_with_the_library_sees(library: Path, tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.touch()
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    command = [shutil.which("python3", path="/usr/bin") or "python3", "-c", PROBE, str(file)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    last = job_users.FIRST_ID + job_users.COUNT - 1
    assert answer == [f"{job_users.FIRST_ID + 12} True u12 True", f"{job_users.FIRST_ID} {last}", "root 0", f"True {CALLER}"]


@pytest.mark.skipif(CALLER != 0, reason="only root gives folders to users")
def test_users_of_a_sandbox_are_known_by_their_folders(library: Path, tmp_path: Path) -> None:
    for name in ("lib", "run", "users/anna", "users/root", "users/.bert"):
        (tmp_path / name).mkdir(parents=True)
    preload, number = shutil.copy(library, tmp_path / "lib"), NAMED_USERS.start + 10
    group = NAMED_USERS.start + 12345
    for name in ("anna", ".bert"):
        os.chown(tmp_path / "users" / name, number + (name == ".bert"), group)
    (tmp_path / "users/link").symlink_to("anna")
    file = tmp_path / "file"
    file.touch()
    code = f"""
import os, pwd
print(*pwd.getpwnam("anna")[:6], pwd.getpwuid({number}).pw_name, os.getgrouplist("anna", 60))
for ask, key in ((pwd.getpwnam, ".bert"), (pwd.getpwnam, "link"), (pwd.getpwnam, "."), (pwd.getpwuid, {number + 1})):
    try:
        print(ask(key))
    except KeyError:
        print("unknown")
print(pwd.getpwnam("root").pw_uid, pwd.getpwnam("u12").pw_uid)
os.chown({str(file)!r}, {number}, -1)
"""
    program = [shutil.which("python3", path="/usr/bin") or "python3", "-c", code]
    answer = subprocess.run(program, env={**os.environ, "LD_PRELOAD": str(preload)}, capture_output=True, text=True, check=True)
    own = f"anna x {number} {group}  {tmp_path}/users/anna anna [60]"
    assert answer.stdout.splitlines() == [own, *["unknown"] * 4, f"0 {job_users.FIRST_ID + 12}"]
    assert file.stat().st_uid == number


@pytest.mark.parametrize(
    ("name", "words", "is_root"), [("sbatch", "--uid=u12", True), ("sbatch", "", False), ("squeue", "--uid=u12", False)]
)
def test_only_sbatch_that_submits_for_another_is_taken_for_roots(library: Path, name: str, words: str, is_root: bool) -> None:
    user = CALLER or 65534  # root as another user, who cannot enter root's folders of tests
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        preload, program, source = shutil.copy(library, folder), Path(folder, name), Path(folder, "user.c")
        source.write_text('#include <stdio.h>\n#include <unistd.h>\nint main(void) { printf("%u %u", getuid(), geteuid()); }\n')
        subprocess.run(["cc", "-o", str(program), str(source)], check=True)
        answer = subprocess.run(
            [str(program), words],
            env={"LD_PRELOAD": str(preload)},
            user=user if CALLER == 0 else None,
            capture_output=True,
            text=True,
        )
    assert answer.stdout == f"{0 if is_root else user} {user}"


def test_commands_have_it_beside_the_clock(tmp_path: Path) -> None:
    assert job_users.environment(tmp_path) == {}
    (tmp_path / "state").mkdir()
    instance_clock.set_speed(tmp_path, 20)
    clock = instance_clock.environment(tmp_path)
    assert job_users.environment(tmp_path) == clock
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/job_users.so").touch()
    assert job_users.environment(tmp_path) == {**clock, "LD_PRELOAD": f"{clock['LD_PRELOAD']}:{tmp_path}/lib/job_users.so"}
    instance_clock.set_speed(tmp_path, 1)
    (tmp_path / "state/clock").unlink()
    assert job_users.environment(tmp_path) == {"LD_PRELOAD": f"{tmp_path}/lib/job_users.so"}


def test_slurms_daemons_have_it_and_start_again_with_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "ALLOCATOR", "no/such/library")
    (tmp_path / "etc").mkdir()
    for name in ("munge.key", "mariadb.cnf", "slurmdbd.conf"):
        (tmp_path / "etc" / name).touch()
    nodes = [{"prefix": "n", "first": 1, "count": 2, "digest": "x", "hostname": None}]
    layout = Layout("localhost", "/sbin", "/sbin", "localhost", "c", nodes, False, 16999, "/sbin/mariadbd")

    def preloaded() -> dict[str, tuple[str, str]]:
        wanted = specifications(tmp_path, layout)
        return {daemon["kind"]: (daemon.get("environment", {}).get("LD_PRELOAD", ""), daemon["digest"]) for daemon in wanted}

    assert {value for value, _ in preloaded().values()} == {""}
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib/job_users.so"
    library.write_bytes(b"1")
    first = preloaded()
    assert {kind for kind, (value, _) in first.items() if value == str(library)} == {"slurmctld", "slurmdbd", "slurmd"}
    assert first["munged"][0] == first["mariadbd"][0] == ""
    library.write_bytes(b"2")
    changed = {kind for kind, (_, digest) in preloaded().items() if digest != first[kind][1]}
    assert changed == {"slurmctld", "slurmdbd", "slurmd"}

"""Users of a sandbox: their names, ids and folders, and who counts as one."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.knobs import resolve
from mirage_extras.sandbox.knobs import SandboxKnobs
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.processes import NAMED_USERS
from slurm_mirage.extras.sandbox import users
from slurm_mirage.instance.creation import ensure_absent, make_folders
from slurm_mirage.rm.slurm import job_users


@given(st.text())
def test_a_name_is_one_word_of_a_path_and_of_a_command(text: str) -> None:
    try:
        name = users.check_name(text)
    except WrongUse:
        return
    assert users.NAME.fullmatch(name)
    assert name == text


@pytest.mark.parametrize("name", ["root", "daemon", "u12", "u0", "Anna", "-a", "", "a" * 32, "a/b", "a\n"])
def test_names_of_the_host_and_of_workloads_are_refused(name: str) -> None:
    with pytest.raises(WrongUse, match=r"^user"):
        users.check_name(name)


@pytest.mark.parametrize("name", ["anna", "u", "u01", "user12", "a-b_c"])
def test_other_names_are_taken(name: str) -> None:
    assert users.check_name(name) == name


def _instance(directory: Path, port: int) -> Path:
    for name in ("users", "munge"):
        (directory / name).mkdir(parents=True)
    os.chown(directory / "munge", -1, NAMED_USERS[port])
    return directory


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders to users")
def test_each_user_has_a_folder_that_only_he_enters(tmp_path: Path) -> None:
    one, two = _instance(tmp_path / "one", 10001), _instance(tmp_path / "two", 10002)
    numbers = [users.ensure(one, name) for name in ("anna", "bert", "anna")]
    assert numbers == [users.FIRST, users.FIRST + 1, users.FIRST]
    assert users.named_ids(one) == {"anna": numbers[0], "bert": numbers[1]}
    assert users.ensure(two, "anna") == users.FIRST + 2, "users of two sandboxes are not the same user of the host"
    assert users.ensure(one, "carl") == users.FIRST + 3
    status = (one / "users/anna").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (numbers[0], NAMED_USERS[10001], 0o700)
    os.chown(one / "munge", -1, NAMED_USERS[10003])
    users.ensure(one, "anna")
    assert (one / "users/anna").stat().st_gid == NAMED_USERS[10003], "the sandbox has another port"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders to users")
def test_only_users_of_the_same_sandbox_reach_its_munged(tmp_path: Path) -> None:
    for name, port in (("one", 10001), ("two", 10002)):
        make_folders(tmp_path / name, (65534, 65534), port, write=True)
        status = (tmp_path / name / "munge").stat()
        assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (65534, NAMED_USERS[port], 0o710)
        number = users.ensure(tmp_path / name, "anna")
        own = {"user": number, "group": job_users.named_group(tmp_path / name), "extra_groups": []}
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        for other in ("one", "two")[: 1 + (name == "two")]:
            reached = subprocess.run(["stat", f"{tmp_path}/{other}/munge/."], capture_output=True, check=False, cwd="/", **own)
            assert (reached.returncode == 0) is (other == name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders to users")
def test_a_folder_of_a_call_that_was_killed_is_made_again(tmp_path: Path) -> None:
    (_instance(tmp_path / "one", 10001) / "users/.anna").mkdir()
    assert users.ensure(tmp_path / "one", "anna") == users.FIRST
    assert [path.name for path in (tmp_path / "one/users").iterdir()] == ["anna"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes to a user")
def test_what_a_user_left_ends_with_the_instance_and_that_of_another_instance_goes_on(tmp_path: Path) -> None:
    started = {}
    for name in ("one", "two"):
        number = users.ensure(_instance(tmp_path / name, 10001), "anna")
        started[name] = subprocess.Popen(["sleep", "100"], env={}, user=number, group=number, extra_groups=[], cwd="/")
    ensure_absent(tmp_path / "one", None, write=True)
    assert (started["one"].poll(), started["two"].poll()) == (-signal.SIGTERM, None)
    ensure_absent(tmp_path / "two", None, write=True)
    assert started["two"].poll() == -signal.SIGTERM


def test_ids_are_no_other_users() -> None:
    assert NAMED_USERS.start < users.REST < users.FIRST < NAMED_USERS.start + 20


def test_the_name_of_every_shell_counts_only_if_it_is_given_to_make() -> None:
    assert resolve.resolve({"USER": "Root!"}, "shell").part(SandboxKnobs).user is None
    given_to_make = {"USER": "anna", resolve.GIVEN: "USER"}
    assert resolve.resolve(given_to_make, "shell").part(SandboxKnobs).user == "anna"
    with pytest.raises(WrongUse, match=r"^USER: 'Root!' is not possible"):
        resolve.resolve({"USER": "Root!", resolve.GIVEN: "USER"}, "shell")

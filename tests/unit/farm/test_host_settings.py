"""Claims of kernel settings by several instances, on files in place of the kernel's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_mirage.farm import host_settings
from slurm_mirage.farm.host_settings import HostSettings, path_of


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (tmp_path / "pid_max").write_text("100\n")
    (tmp_path / "somaxconn").write_text("4096\n")
    return tmp_path


def value(path: Path) -> int:
    return int(path.read_text())


def test_path_of_a_setting() -> None:
    assert path_of("kernel.pid_max") == Path("/proc/sys/kernel/pid_max")
    assert path_of("/sys/kernel/mm/ksm/run") == Path("/sys/kernel/mm/ksm/run")


def test_the_last_release_restores_the_original_value(kernel: Path) -> None:
    host, pid_max = HostSettings(kernel / "register.json"), kernel / "pid_max"
    assert host.claim("a", {str(pid_max): 300}) == {"changed": [str(pid_max)], "refused": {}, "noted": True}
    assert host.claim("a", {str(pid_max): 300}) == {"changed": [], "refused": {}, "noted": False}
    host.claim("b", {str(pid_max): 200})
    assert value(pid_max) == 300
    host.release("a")
    assert value(pid_max) == 200
    host.release("b")
    assert value(pid_max) == 100
    assert not (kernel / "register.json").exists()


def test_a_value_that_others_raise_between_two_equal_claims_is_no_change(kernel: Path) -> None:
    """A cluster in a container that shares the kernel may raise it. The raised value is the original one from then on."""
    host, pid_max = HostSettings(kernel / "register.json"), kernel / "pid_max"
    host.claim("a", {str(pid_max): 300})
    pid_max.write_text("500\n")
    assert host.claim("a", {str(pid_max): 300}) == {"changed": [], "refused": {}, "noted": False}
    host.release("a")
    assert value(pid_max) == 500


def test_a_setting_is_never_lowered(kernel: Path) -> None:
    host = HostSettings(kernel / "register.json")
    assert host.claim("a", {str(kernel / "somaxconn"): 128})["changed"] == []
    assert value(kernel / "somaxconn") == 4096


def test_a_claim_replaces_the_earlier_one(kernel: Path) -> None:
    host = HostSettings(kernel / "register.json")
    host.claim("a", {str(kernel / "pid_max"): 300, str(kernel / "somaxconn"): 9000})
    host.claim("a", {str(kernel / "pid_max"): 250})
    assert (value(kernel / "pid_max"), value(kernel / "somaxconn")) == (250, 4096)


def test_a_claim_without_write_reports_changes_and_makes_none(kernel: Path) -> None:
    host = HostSettings(kernel / "register.json")
    assert host.claim("a", {str(kernel / "pid_max"): 300}, write=False)["changed"] == [str(kernel / "pid_max")]
    assert value(kernel / "pid_max") == 100
    assert not (kernel / "register.json").exists()


def test_a_missing_setting_is_reported_as_refused(kernel: Path) -> None:
    host = HostSettings(kernel / "register.json")
    outcome = host.claim("a", {str(kernel / "missing"): 1, str(kernel / "pid_max"): 300})
    assert outcome["refused"] == {str(kernel / "missing"): "No such file or directory"}
    assert value(kernel / "pid_max") == 300


def test_a_refused_setting_is_not_registered(kernel: Path) -> None:
    host, fixed = HostSettings(kernel / "register.json"), "kernel.cap_last_cap"  # a read-only number
    outcome = host.claim("a", {fixed: 4096})
    assert (outcome["changed"], list(outcome["refused"]), outcome["noted"]) == ([], [fixed], False)
    assert not (kernel / "register.json").exists()


def test_claims_survive_a_reboot_and_the_original_value_is_read_again(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, pid_max, boot_id = HostSettings(kernel / "register.json"), kernel / "pid_max", kernel / "boot_id"
    boot_id.write_text("first\n")
    monkeypatch.setattr(host_settings, "BOOT_ID", boot_id)
    host.claim("a", {str(pid_max): 300})
    boot_id.write_text("second\n")
    pid_max.write_text("120\n")
    host.renew()
    assert value(pid_max) == 300
    host.release("a")
    assert value(pid_max) == 120


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(1, 500)), max_size=12))
def test_the_value_is_the_maximum_after_any_order_of_claims_and_releases(
    tmp_path_factory: pytest.TempPathFactory, steps: list
) -> None:
    folder = tmp_path_factory.mktemp("kernel")
    setting, host, claims = folder / "value", HostSettings(folder / "register.json"), {}
    setting.write_text("100\n")
    for instance, wanted in steps:
        if wanted is None:
            host.release(instance)
            claims.pop(instance, None)
        else:
            host.claim(instance, {str(setting): wanted})
            claims[instance] = wanted
        assert value(setting) == max([100, *claims.values()])


def test_a_value_raised_by_others_is_kept(kernel: Path) -> None:
    host, pid_max = HostSettings(kernel / "register.json"), kernel / "pid_max"
    host.claim("a", {str(pid_max): 300})
    pid_max.write_text("900\n")
    assert host.claim("a", {str(pid_max): 300})["changed"] == []
    assert value(pid_max) == 900
    host.release("a")
    assert value(pid_max) == 900


def test_a_repeated_claim_of_one_of_two_instances_changes_nothing(kernel: Path) -> None:
    host, pid_max = HostSettings(kernel / "register.json"), kernel / "pid_max"
    host.claim("b", {str(pid_max): 300})
    host.claim("a", {str(pid_max): 200})
    host.claim("b", {str(pid_max): 300})
    assert host.claim("a", {str(pid_max): 200}) == {"changed": [], "refused": {}, "noted": False}


def test_the_original_value_is_registered_before_the_setting_is_changed(kernel: Path) -> None:
    """A process is killed during a claim, and another during a release: the next release restores the original value."""
    host, pid_max = HostSettings(kernel / "register.json"), kernel / "pid_max"
    for victim in ("claim", "release"):
        child = os.fork()
        if child == 0:
            HostSettings._write = staticmethod(  # type: ignore[method-assign]
                lambda name, value, refused: path_of(name).write_text(f"{value}\n") and os.kill(os.getpid(), signal.SIGKILL)
            )
            host.claim("a", {str(pid_max): 300} if victim == "claim" else {})
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert value(pid_max) == (300 if victim == "claim" else 100)
        if victim == "claim":
            host.claim("a", {str(pid_max): 300})
    host.release("a")
    assert value(pid_max) == 100
    assert not (kernel / "register.json").exists()


def test_a_release_without_any_claim_creates_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert HostSettings(folder / "register.json").release("a") == {"changed": [], "refused": {}, "noted": False}
    assert not folder.exists()

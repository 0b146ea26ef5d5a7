"""The program that is computed: its result, and its own saves."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from .conftest import Chain, wait_until

MANY = 1_000_000_000
"""Rounds of a computation that does not end during a test."""


def worked_out(rounds: int) -> str:
    """The result with 1 MiB, by the definition in chain.c."""
    whole = 1 << 64
    array, carry = [i * 0x9E3779B97F4A7C15 % whole for i in range(131072)], 1
    for _ in range(rounds):
        for i, value in enumerate(array):
            x = (value + carry) * 0xBF58476D1CE4E5B9 % whole
            array[i] = carry = x ^ x >> 29
    return f"{carry:016x}\n"


def test_the_result_is_the_defined_one(chain: Chain) -> None:
    assert chain.run(3).returncode == 0
    assert chain.result.read_text() == worked_out(3)


def test_a_computation_saved_on_request_goes_on_and_has_the_same_result(chain: Chain) -> None:
    rounds = 4000
    assert chain.run(rounds).returncode == 0
    expected = chain.result.read_text()
    saves = 0
    while True:
        process = chain.start(chain.command(rounds, "--state", str(chain.state)))
        # The handler is in place: a signal before would end the process.
        wait_until(lambda: process.poll() is not None or catches(process.pid, signal.SIGUSR1), "the handler")  # noqa: B023
        process.send_signal(signal.SIGUSR1)
        if (code := process.wait()) == 0:
            break
        assert code == 99 and chain.state.exists()
        saves += 1
        if saves == 3:
            assert chain.run(rounds, "--state", str(chain.state)).returncode == 0
            break
    assert saves == 3
    assert chain.result.read_text() == expected
    assert not chain.state.exists()


def catches(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def saved(chain: Chain) -> bytes:
    """Return a state, saved on request."""
    process = chain.start(chain.command(MANY, "--state", str(chain.state)))
    wait_until(lambda: catches(process.pid, signal.SIGUSR1), "the handler")
    process.send_signal(signal.SIGUSR1)
    assert process.wait() == 99
    return chain.state.read_bytes()


def refused(chain: Chain, rounds: int = MANY) -> str:
    done = chain.run(rounds, "--state", str(chain.state))
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    return done.stderr


def test_a_torn_state_is_refused(chain: Chain) -> None:
    whole = saved(chain)
    for torn in (whole[:-1], whole[:30], b"", whole + b"x", whole[:-1] + bytes([whole[-1] ^ 1]), whole[:32] + b"\xff" + whole[33:]):
        chain.state.write_bytes(torn)
        assert "torn" in refused(chain)


def test_a_state_of_another_computation_or_version_is_refused(chain: Chain) -> None:
    whole = saved(chain)
    assert "of another computation" in refused(chain, MANY - 1)
    chain.state.write_bytes(whole[:8] + b"\x02" + whole[9:])
    assert "of version 2" in refused(chain)


def test_it_is_saved_periodically_and_goes_on_when_the_disk_is_full(chain: Chain, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    state = folder / "state"
    process = chain.start(chain.command(MANY, "--state", str(state), "--interval", "1"))
    wait_until(state.exists, "the first save")
    # The file beside the state cannot be made: its name is a folder.
    (folder / "state.new").mkdir()
    process.send_signal(signal.SIGUSR1)
    assert process.stderr is not None
    assert "not saved" in process.stderr.readline()
    assert process.poll() is None
    (folder / "state.new").rmdir()
    process.send_signal(signal.SIGUSR1)
    assert process.wait() == 99


@pytest.mark.parametrize("words", [["--memory", "0"], ["--memory", "-1"], ["--rounds", "1x"], ["--what", "1"], ["--state"]])
def test_wrong_use_is_one_line(chain: Chain, words: list[str]) -> None:
    done = chain.run(1, *words)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1

"""Fillers: words, numbers and command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.filler.words import LARGEST_COUNT, Filler

SECONDS = st.decimals(0, 10**9, places=9).map(float)
SOME_SECONDS = SECONDS.filter(lambda value: value > 0)
FILLERS = st.builds(
    Filler,
    work=st.lists(SOME_SECONDS, min_size=2, max_size=5).map(tuple),
    save=SECONDS,
    restore=SECONDS,
    interval=SECONDS,
    slot=SOME_SECONDS,
    speed=st.decimals("0.000000001", 1, places=9).map(float),
)


def test_the_defaults() -> None:
    assert Filler.parse("") == Filler() == Filler((36000,), 10, 5, 600, 600, 1, None)


def test_words_in_any_order_of_which_the_last_counts() -> None:
    text = "count=3 speed=0.9 work=10 slot=300 restore=0 save=2.5 interval=0 work=20"
    assert Filler.parse(text) == Filler((20,), 2.5, 0, 0, 300, 0.9, 3)


def test_a_file_of_work(tmp_path: Path) -> None:
    path = tmp_path / "work"
    path.write_text("100 # first\n\n# none\n200.5\n300\n")
    filler = Filler.parse(f"work={path}")
    assert (filler.work, filler.count) == ((100, 200.5, 300), 3)
    assert [filler.work_of(number) for number in range(5)] == [None, 100, 200.5, 300, None]
    assert Filler.parse(filler.text()) == filler
    assert Filler.parse(f"work={path} count=1") == Filler((100,), count=1)
    path.write_text("100\n")
    assert Filler.parse(f"work={path}") == Filler((100,), count=1)


def test_numbers_of_fillers() -> None:
    assert Filler().work_of(LARGEST_COUNT) == 36000
    assert Filler().work_of(0) is None
    assert [Filler.parse("count=2 work=5").work_of(number) for number in (1, 2, 3)] == [5, 5, None]


@given(filler=FILLERS, count=st.none() | st.integers(1, LARGEST_COUNT))
def test_text_is_read_back(filler: Filler, count: int | None) -> None:
    several = Filler(**{**vars(filler), "count": len(filler.work)})
    alike = Filler(**{**vars(filler), "work": filler.work[:1], "count": count})
    assert Filler.parse(several.text()) == several
    assert Filler.parse(alike.text()) == alike


def test_scaled_times() -> None:
    assert Filler((10, 20), 1, 2, 4, 8, 0.5, 2).scaled(0.5) == Filler((5, 10), 0.5, 1, 2, 4, 0.5, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("save=-1", "save=-1: seconds, 0 or more"),
        ("restore=-0.5", "restore=-0.5: seconds, 0 or more"),
        ("interval=1e3", "interval=1e3: seconds, 0 or more"),
        ("slot=0", "slot=0: more than 0 seconds"),
        ("work=0", "work=0: more than 0 seconds"),
        ("work=-3", "work=-3: seconds, 0 or more"),
        ("work=1,0", "work=0: more than 0 seconds"),
        ("work=/no/such/file", "work=/no/such/file: No such file"),
        ("speed=0", "speed=0: above 0, up to 1"),
        ("speed=1.01", "speed=1.01: above 0, up to 1"),
        ("speed=-1", "speed=-1: above 0, up to 1"),
        ("count=0", "count=0: a whole number from 1 to"),
        ("count=2.5", "count=2.5: a whole number from 1 to"),
        ("count=99999999", "count=99999999: a whole number from 1 to"),
        ("work=1,2 count=3", "count=3: there are only 2 lengths of work"),
        ("memory=3", "'memory=3' may be one of"),
        ("save", "'save' may be one of"),
        ("save=", "'save=' may be one of"),
    ],
)
def test_words_that_are_refused(words: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        Filler.parse(words)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no length of work"),
        (b"1\n0\n", "line 2 may be seconds above 0"),
        (b"-1\n", "line 1 may be seconds above 0"),
        (b"1 2\n", "line 1 may be seconds above 0"),
        (b"\xff\n", "not a text file"),
    ],
)
def test_files_of_work_that_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "work"
    path.write_bytes(content)
    with pytest.raises(WrongUse) as caught:
        Filler.parse(f"work={path}")
    assert message in str(caught.value)


def test_a_slot_has_room_for_work() -> None:
    Filler.parse("slot=15.1").check_slots()
    with pytest.raises(WrongUse, match="slot=15: more than restore and save, 15 s"):
        Filler.parse("slot=15").check_slots()


def test_the_command_line() -> None:
    filler = Filler.parse("work=100.5 save=2 restore=0.25 interval=50 slot=300 speed=0.9")
    words = [
        *("exec", "/srv/my bin/sigsleep", "--id", "7", "--cores", "1", "--runtime", "100.5", "--log", "/srv/fillers.bin"),
        *("--state", "/srv/fillers/7", "--save-cost", "2", "--restore-cost", "0.25", "--interval", "50"),
    ]
    paths = ("/srv/my bin/sigsleep", "/srv/clock", Path("/srv/fillers.bin"), Path("/srv/fillers/7"))
    line = filler.command_line(7, *paths, slots=True)
    assert shlex.split(line) == [*words, "--slot", "300", "--speed", "0.9", "--clock", "/srv/clock"]
    bare = Filler.parse("work=100.5 save=2 restore=0.25 interval=0").command_line(7, paths[0], None, *paths[2:], slots=False)
    assert shlex.split(bare) == [*words[:-2], "--speed", "1"]
    with pytest.raises(WrongUse, match="filler 3: may be 1 to 2"):
        Filler.parse("count=2").command_line(3, *paths, slots=True)

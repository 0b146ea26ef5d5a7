"""The words of malleable jobs: what they mean, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.extras.malleable.words import Malleable, Speedup, reachable

sizes = st.integers(1, 5000)
seconds = st.integers(0, 10**15).map(lambda billionths: billionths / 10**9)
tables = st.dictionaries(sizes, st.integers(1, 10**13).map(lambda value: value / 10**9), min_size=1, max_size=9)
speedups = st.builds(Speedup, parallel=st.integers(0, 10**9).map(lambda value: value / 10**9)) | st.builds(
    Speedup, parallel=st.just(1.0), rows=tables.map(lambda table: tuple(sorted(table.items())))
)


@st.composite
def malleables(draw: st.DrawFn) -> Malleable:
    minimum, maximum = sorted((draw(sizes), draw(sizes)))
    return Malleable(
        minimum,
        maximum,
        draw(st.integers(2, 9)),
        draw(st.none() | st.integers(minimum, maximum)),
        draw(seconds.filter(bool)),
        draw(seconds),
        draw(speedups),
        draw(seconds),
        draw(seconds),
        draw(st.booleans()),
    )


def test_words() -> None:
    assert Malleable.parse("1:20:2:-") == Malleable(1, 20, 2)
    words = "2:32:2:8 check=5 inhibitor=30 speedup=amdahl:0.95 cost=0.5:0.01 async"
    job = Malleable.parse(words)
    assert job == Malleable(2, 32, 2, 8, 5.0, 30.0, Speedup(0.95), 0.5, 0.01, True)
    assert (job.text(), job.cost(8, 2)) == (words, 0.56)


@given(malleables())
def test_the_text_is_read_back(job: Malleable) -> None:
    assert Malleable.parse(job.text()) == job


@pytest.mark.parametrize(
    ("start", "words", "reached"),
    [
        (2, "1:8:2:-", [1, 2, 4, 8]),
        (20, "1:20:2:-", [5, 10, 20]),
        (6, "1:100:3:-", [2, 6, 18, 54]),
        (2, "4:16:2:-", [4, 8, 16]),
        (64, "2:32:2:8", [2, 4, 8, 16, 32]),
    ],
)
def test_sizes(start: int, words: str, reached: list[int]) -> None:
    assert Malleable.parse(words).sizes(start) == reached


@given(sizes, sizes, sizes, st.integers(2, 9))
def test_reachable_sizes(start: int, minimum: int, maximum: int, factor: int) -> None:
    def is_reached(size: int) -> bool:
        while size > start:
            size, rest = divmod(size, factor)
            if rest:
                return False
        while size < start:
            size *= factor
        return size == start

    assert reachable(start, minimum, maximum, factor) == [size for size in range(minimum, maximum + 1) if is_reached(size)]


@pytest.mark.parametrize(
    ("start", "words", "message"),
    [
        (3, "4:5:2:-", "no size from 4 to 5 is reached from 3 nodes by the factor 2"),
        (5, "4:5:2:-", "no size from 4 to 5 is reached from 5 nodes by the factor 2"),
        (4, "4:4:2:-", "no size from 4 to 4 is reached from 4 nodes by the factor 2"),
        (20, "1:20:2:8", "the preferred size 8 is not reached from 20 nodes by the factor 2: 5, 10, 20"),
    ],
)
def test_sizes_that_are_not_reached(start: int, words: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        Malleable.parse(words).sizes(start)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "malleable job '': may be MIN:MAX:FACTOR:PREFERRED [check=S]"),
        ("1:2:2", "malleable job '1:2:2': may be MIN:MAX"),
        ("0:2:2:-", "malleable job: the minimum '0' may be a whole number from 1 to 1000000"),
        ("1:x:2:-", "malleable job: the maximum 'x' may be"),
        ("1:9999999:2:-", "malleable job: the maximum '9999999' may be"),
        ("1:²:2:-", "malleable job: the maximum"),
        ("1:-2:2:-", "malleable job: the maximum '-2' may be"),
        ("8:2:2:-", "malleable job 8:2:2:-: the minimum 8 is above the maximum 2"),
        ("1:2:1:-", "malleable job 1:2:1:-: the factor 1 may be 2 or more"),
        ("1:8:2:16", "malleable job 1:8:2:16: the preferred size 16 is not within 1 to 8"),
        ("1:8:2:", "malleable job: the preferred size '' may be a whole number from 1 to 1000000 or -"),
        ("1:8:2:- check=0", "check=0: more than 0 seconds"),
        ("1:8:2:- check=-5", "check=-5: seconds, 0 or more"),
        ("1:8:2:- check=1e3", "check=1e3: seconds"),
        ("1:8:2:- check=inf", "check=inf: seconds"),
        ("1:8:2:- check=5 check=5", "malleable job: check is given twice"),
        ("1:8:2:- inhibitor=x", "inhibitor=x: seconds"),
        ("1:8:2:- colour=red", "malleable job: 'colour=red' may be one of [check=S]"),
        ("1:8:2:- async=yes", "malleable job: 'async=yes' may be"),
        ("1:8:2:- check", "malleable job: 'check' may be"),
        ("1:8:2:- cost=5", "cost=5: may be CONSTANT:PER_PROCESS, in seconds"),
        ("1:8:2:- cost=5:", "cost=: seconds"),
        ("1:8:2:- speedup=magic", "speedup=magic: may be linear, amdahl:F or table:FILE"),
        ("1:8:2:- speedup=table:", "speedup=table:: may be"),
        ("1:8:2:- speedup=amdahl:1.5", "speedup=amdahl:1.5: the parallel fraction is a number from 0 to 1"),
        ("1:8:2:- speedup=amdahl:", "speedup=amdahl:: the parallel fraction"),
        ("1:8:2:- speedup=table:2=1,1=2", "speedup=table: row 2: 1 nodes is not above the row before (2)"),
        ("1:8:2:- speedup=table:1=0", "speedup=table: row 1: 1 to 1000000 nodes, and a speed-up above 0"),
        ("1:8:2:- speedup=table:1=1.2.3", "speedup=table: row 1 may be NODES SPEEDUP"),
        ("1:8:2:- speedup=table:/no/such/file", "speed-up table /no/such/file: No such file or directory"),
    ],
)
def test_bad_words(words: str, message: str) -> None:
    with pytest.raises(WrongUse) as caught:
        Malleable.parse(words)
    assert str(caught.value).startswith(message)


@given(st.text() | st.text(alphabet="0123456789:-=. acehkmnst,"))
def test_any_other_words_are_refused(words: str) -> None:
    try:
        job = Malleable.parse(words)
    except WrongUse as error:
        assert "\n" not in str(error)
    else:
        assert Malleable.parse(job.text()) == job


# ---- speed-up ----


def test_amdahls_law() -> None:
    assert [Speedup().of(nodes) for nodes in (1, 2, 64)] == [1, 2, 64]
    assert [Speedup(0.0).of(nodes) for nodes in (1, 64)] == [1, 1]
    assert Speedup(0.9).of(1) == pytest.approx(1)
    assert Speedup(0.9).of(9) == pytest.approx(5)


def test_a_table_is_read_once_and_kept_in_the_words(tmp_path: Path) -> None:
    path = tmp_path / "speedup.txt"
    path.write_text("# nodes, speed-up\n2 1.5\n\n4 2.5  # measured\n8 2\n")
    job = Malleable.parse(f"1:8:2:- speedup=table:{path}")
    assert job.text() == "1:8:2:- speedup=table:2=1.5,4=2.5,8=2"
    assert [job.speedup.of(nodes) for nodes in (1, 2, 3, 4, 6, 8, 16)] == [1.5, 1.5, 2, 2.5, 2.25, 2, 2]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no row NODES SPEEDUP"),
        (b"1 1\n2\n", "row 2 may be NODES SPEEDUP"),
        (b"1 1\n2 fast\n", "row 2 may be NODES SPEEDUP"),
        (b"1 1\n1 2\n", "row 2: 1 nodes is not above the row before (1)"),
        (b"\xff\xfe\x00", "not a text file"),
    ],
)
def test_bad_tables(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "speedup.txt"
    path.write_bytes(content)
    with pytest.raises(WrongUse) as caught:
        Speedup.parse(f"table:{path}")
    assert str(caught.value) == f"speed-up table {path}: {message}"

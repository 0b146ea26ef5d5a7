"""Expanding and compressing Slurm host lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.hostlist import compress, count, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[1-2,7],fat2", ["n1", "n2", "n7", "fat2"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("rack1n[9-10],login", ["rack1n9", "rack1n10", "login"]),
        ("n[1-2]x[3]", ["n1x3", "n2x3"]),
        ("a[1-2]-[1-3]", ["a1-1", "a1-2", "a1-3", "a2-1", "a2-2", "a2-3"]),
        ("r[07,9]n[01]-ib,c-[1-2]", ["r07n01-ib", "r9n01-ib", "c-1", "c-2"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text", ["n[", "n[1-2", ",", "n[a]", "n[]", "n[1-]", "n[3-1]", "n[1-2]]", "a b", "n[1-1000][1-1001]", "n[0-99999999999]"]
)
def test_expand_refuses_text_that_is_not_a_host_list(text: str) -> None:
    with pytest.raises(ValueError):
        expand(text)


@pytest.mark.parametrize("text", ["n[1-65537]", "n[1-40000],m[1-40000]", "n[0-99999999999999999999]", "n[" + "1-65536," * 9 + "1]"])
def test_no_more_names_are_made_than_slurm_can_have(text: str) -> None:
    with pytest.raises(ValueError, match=r"has \d+ names, at most 65536 are possible"):
        expand(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [("", 0), ("n", 1), ("n[1-65536]", 65536), ("n[1-2,7],fat2", 4), ("r[1-3]n[01-10]", 30), ("n[3-1]", 0)],
)
def test_names_are_counted_without_making_them(text: str, names: int) -> None:
    assert count(text) == names


@pytest.mark.parametrize("text", ["n" * 256, f"n[{'0' * 255}-9]", f"n[1-{'9' * 5000}]"])
def test_a_name_that_no_host_has(text: str) -> None:
    with pytest.raises(ValueError, match="a name of more than 255 characters"):
        expand(text)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n10", "n9", "n8"], "n[8-10]"),
        (["n1", "n3", "fat2", "fat1", "login"], "login,fat[1-2],n[1,3]"),
        (["n1"], "n1"),
        (["n0", "n1"], "n[0-1]"),
    ],
)
def test_compress(names: list[str], text: str) -> None:
    assert compress(names) == text


NUMBERS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 3)), min_size=1, max_size=3)


@given(st.lists(st.one_of(st.text("abz-._09", min_size=1, max_size=4), NUMBERS), min_size=1, max_size=4), st.integers(1, 3))
def test_expand_gives_each_combination_of_the_ranges(pieces: list[str | list[tuple[int, int]]], width: int) -> None:
    text, names = "", [""]
    for piece in pieces:
        if isinstance(piece, str):
            text, choices = text + piece, [piece]
        else:
            text += f"[{','.join(f'{low:0{width}}-{low + more:0{width}}' for low, more in piece)}]"
            choices = [f"{number:0{width}}" for low, more in piece for number in range(low, low + more + 1)]
        names = [name + choice for name in names for choice in choices]
    assert expand(text) == names


@given(st.sets(st.text("abz-._0129", min_size=1, max_size=6)))
def test_any_names_come_back(names: set[str]) -> None:
    text = compress(names)
    assert set(expand(text)) == names
    assert compress(expand(text)) == text


@given(st.sets(st.tuples(st.sampled_from(["n", "fat-", "r2n"]), st.integers(0, 300))))
def test_expand_inverts_compress(parts: set[tuple[str, int]]) -> None:
    names = {f"{prefix}{number}" for prefix, number in parts}
    text = compress(names)
    assert set(expand(text)) == names
    assert compress(expand(text)) == text

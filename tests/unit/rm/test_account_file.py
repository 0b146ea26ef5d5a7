"""The file that `sacctmgr load` reads: values arrive letter by letter in a reading of sacctmgr's parser, or are refused."""

from __future__ import annotations

import pytest
import slurm_reader
from hypothesis import example, given
from hypothesis import strategies as st
from line_values import values

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import account_file

BUFFER = 4096
"""Bytes that sacctmgr reads of a line at once."""


def read(text: str) -> list[tuple[str, str, dict[str, str]]]:
    """Object, name and options of each line, as sacctmgr reads them (load_sacctmgr_cfg_file, _parse_options, strip_quotes). A line
    of BUFFER bytes or more is read as several ones."""
    found = []
    assert all(len(line) < BUFFER for line in text.encode().splitlines(keepends=True)), "the rest would be another line"
    for line in slurm_reader.logical_lines(text.encode()):
        kind, _, rest = line.decode().rstrip("\n").partition(" - ")
        name, options = "", {}
        for column in columns(rest):
            key, sign, value = column.partition("=")
            if not sign:
                assert not name, "Bad format: End your option with an '=' sign"
                name = stripped(column)
            else:
                options[key] = stripped(value)
        found.append((kind, name, options))
    return found


def columns(rest: str) -> list[str]:
    """The parts between colons that are not in quotes."""
    found, place = [], 0
    while place < len(rest):
        start, quote = place, ""
        while place < len(rest) and rest[place] != ":":
            if rest[place] in "\"'":
                quote = ("" if rest[place] == quote else quote) if quote else rest[place]
            place += 1
        if quote:
            end = rest.find(quote, place)
            assert end >= 0, "There is a problem with option with quotes"
            place = end + 1
        if place > start:
            found.append(rest[start:place])
        if place < len(rest) and rest[place] != ":":
            break  # the rest is passed over
        place += 1
    return found


def stripped(text: str) -> str:
    """A value without its quotes, small letters, other quotes as another character."""
    quote, begin = (text[0], 1) if text[:1] in ("'", '"') else ("", 0)
    end = text.find(quote, begin) if quote else -1
    return "".join(
        "`" if letter in "\"'" else letter.lower() if letter.isascii() else letter
        for letter in text[begin : end if end >= 0 else None]
    )


@given(values, st.dictionaries(st.sampled_from(["Fairshare", "MaxWallDurationPerJob", "QOS"]), values.map(str.lower), max_size=3))
@example("a#b", {"QOS": "a:b#c\\"})
def test_a_line_is_read_letter_by_letter_or_refused(name: str, options: dict[str, str]) -> None:
    try:
        line = account_file.line("Account", name, options)
    except WrongUse as error:
        assert str(error).startswith("account")
        return
    assert read(f"Cluster - 'a'\n{line}Parent - 'root'\n") == [
        ("Cluster", "a", {}),
        ("Account", name, options),
        ("Parent", "root", {}),
    ]


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("a'b", {}, 'account: "a\'b" is no name that sacctmgr keeps'),
        ("a b", {}, "account: 'a b' is no name that sacctmgr keeps"),
        ("", {}, "account: '' is no name that sacctmgr keeps"),
        ("ABC", {}, "account: 'ABC' is no name that sacctmgr keeps"),
        ("a\nb", {}, "account: has the control character U+000A"),
        ("a", {"QOS": "1':AdminLevel='Admin"}, "account a: QOS: has quotes, which sacctmgr does not keep"),
        ("a", {"QOS": "x\u2028y"}, "account a: QOS: has the line separator U+2028"),
        ("a", {"QOS='1':AdminLevel": "x"}, "account a: \"QOS='1':AdminLevel\" is not an option of sacctmgr"),
        ("a", {"QOS": "x" * BUFFER}, "account a: its options are longer than 4094 bytes, the most that sacctmgr reads of a line"),
    ],
)
def test_what_sacctmgr_would_read_otherwise_is_refused(name: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(WrongUse) as refused:
        account_file.line("Account", name, options)
    assert str(refused.value).startswith(words)


def test_the_longest_line_is_read_as_one() -> None:
    length = account_file.LONGEST - len("Account - 'a':QOS=''")
    assert read(account_file.line("Account", "a", {"QOS": "x" * length})) == [("Account", "a", {"QOS": "x" * length})]
    with pytest.raises(WrongUse, match="longer than 4094 bytes"):
        account_file.line("Account", "a", {"QOS": "x" * (length + 1)})

"""slurm.conf as data: merging, rendering, slim files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import slurm_reader
from hypothesis import given
from hypothesis import strategies as st
from line_values import PLANTED, values

from slurm_mirage.base import line_text
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.conf import (
    OMIT,
    Nodes,
    check,
    include,
    line_of,
    merge,
    partition_line,
    render,
    render_settings,
    setting,
    slim_files,
    value_of,
)

NODES = Nodes(prefix="n", first=1, count=3, cpus=16, address="127.0.0.1", port=17001)

keys = st.sampled_from(["SlurmUser", "slurmuser", "TreeWidth", "MailProg", "treewidth"])
settings = st.dictionaries(keys, st.integers() | st.just(OMIT))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "YES"),
        (False, "NO"),
        (0, "0"),
        (["SUSPEND", "GANG"], "SUSPEND,GANG"),
        ({"bf_interval": 5, "bf_continue": True}, "bf_interval=5,bf_continue"),
        ("select/cons_tres", "select/cons_tres"),
    ],
)
def test_value(value: object, text: str) -> None:
    assert value_of(value) == text


@given(settings, settings, settings)
def test_merge_is_associative_but_for_omit_and_ignores_case(a: dict, b: dict, c: dict) -> None:
    merged = merge(a, b, c)
    assert len({key.lower() for key in merged}) == len(merged)
    assert OMIT not in merged.values()
    last = {key.lower(): value for mapping in (a, b, c) for key, value in mapping.items()}
    assert {key.lower(): value for key, value in merged.items()} == {k: v for k, v in last.items() if v != OMIT}


def test_settings_are_sorted_whatever_their_case() -> None:
    assert render_settings({"b": 1, "A": 2, "c": [1, 2]}) == "A=2\nb=1\nc=1,2\n"


@pytest.mark.parametrize("bad", [{"Two words": 1}, {"Key": "one\ntwo"}, {"": 1}])
def test_a_setting_that_would_be_another_line_is_refused(bad: dict) -> None:
    with pytest.raises(WrongUse, match=r"slurm\.conf: "):
        render_settings(bad)


def test_whole_file() -> None:
    text = render({"ClusterName": "mirage"}, [NODES], [{"name": "batch", "Default": True, "MaxTime": "omit"}])
    assert text.splitlines()[1:] == [
        "ClusterName=mirage",
        "NodeName=n[1-3] NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=16",
        "PartitionName=batch Nodes=ALL Default=YES",
    ]


def test_slim_files_hold_one_node_each() -> None:
    files = dict(slim_files([NODES], "/etc/common.conf"))
    assert sorted(files) == ["n1.conf", "n2.conf", "n3.conf"]
    assert files["n2.conf"].splitlines()[1:] == [
        "Include /etc/common.conf",
        "NodeName=n2 NodeAddr=127.0.0.1 Port=17002 CPUs=16",
    ]


@given(st.integers(1, 50), st.integers(1, 40), st.integers(1024, 60000))
def test_slim_files_agree_with_the_whole_file(first: int, count: int, port: int) -> None:
    nodes = Nodes("n", first, count, 4, "127.0.0.1", port, (("RealMemory", "1000"),))
    lines = [text.splitlines()[-1] for _name, text in slim_files([nodes], "/c")]
    assert [line.split()[0] for line in lines] == [f"NodeName=n{i}" for i in range(first, first + count)]
    assert [line.split()[2] for line in lines] == [f"Port={port + i}" for i in range(count)]
    assert all(line.endswith("CPUs=4 RealMemory=1000") for line in lines)
    expected = f"Port={port}" if count == 1 else f"Port=[{port}-{port + count - 1}]"
    assert expected in nodes.line().split()


def test_a_line_leaves_out_omitted_words() -> None:
    assert line_of("PartitionName", "p", {"State": "UP", "MaxTime": OMIT}) == "PartitionName=p State=UP"


# ---- values arrive letter by letter in Slurm's own parser, or are refused ----


def written(value: str) -> str | None:
    """A setting in a file between two others; None if it is refused in one line that names the key and not the value."""
    try:
        line = setting("slurm.conf", "MailProg", value)
    except WrongUse as error:
        assert str(error).startswith("slurm.conf: MailProg: has ") and str(error).isprintable()
        return None
    return f"TreeWidth=5\n{line}\nSlurmUser=x\n"


@given(values)
def test_a_value_is_read_letter_by_letter_or_refused(value: str) -> None:
    text = written(value)
    if text is not None:
        assert slurm_reader.words(text) == [[("TreeWidth", "5")], [("MailProg", value)], [("SlurmUser", "x")]]
    else:
        assert line_text.fault(value) or '"' in value


@given(
    st.lists(st.tuples(st.sampled_from(["State", "AllowAccounts", "Nodes"]), values), max_size=3, unique_by=lambda item: item[0])
)
def test_the_words_of_a_line_are_read_letter_by_letter_or_refused(words: list[tuple[str, str]]) -> None:
    try:
        text = line_of("PartitionName", "p", dict(words))
    except WrongUse as error:
        assert str(error).startswith("slurm.conf: PartitionName=p: ")
        return
    kept = [word for word in words if word[1] != OMIT]
    assert slurm_reader.words(f"{text}\nNodeName=n1\n") == [[("PartitionName", "p"), *kept], [("NodeName", "n1")]]


@given(values)
def test_a_partition_has_the_name_of_its_mapping_or_is_refused(name: str) -> None:
    try:
        text = partition_line({"name": name})
    except WrongUse as error:
        assert str(error).startswith("slurm.conf: ")
        return
    assert slurm_reader.words(text) == [[("PartitionName", name), ("Nodes", "ALL")]]


@given(values)
def test_an_included_path_is_the_rest_of_its_line_or_refused(path: str) -> None:
    try:
        text = include(path)
    except WrongUse:
        return
    [line] = slurm_reader.logical_lines(text.encode())
    assert line.split() == [b"Include", path.encode()]


@pytest.mark.skipif(slurm_reader.LIBRARY is None, reason="Slurm's library is not installed")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_slurms_own_library_reads_what_the_reading_of_its_parser_says(tmp_path: Path, locale: str) -> None:
    """Each planted value as a setting of its own, and as a word of a line; one file for all."""
    chance = random.Random(1)
    alphabet = "ab #\\\"'=,:\t\u3000\u00e4"
    given_values = [*PLANTED, *("".join(chance.choices(alphabet, k=chance.randint(0, 6))) for _ in range(400))]
    settings, lines = {}, []
    for number, value in enumerate(given_values):
        key = f"Key{number}"
        if written(value) is not None:
            settings[key] = value
            lines.append({"Line": f"n{number}", "Word": value, "Last": "1"})
    text = render_settings(settings) + "".join(f"{line_of('Line', one.pop('Line'), one)}\n" for one in map(dict, lines))
    path = tmp_path / "slurm.conf"
    path.write_text(text, newline="")
    read = slurm_reader.read_by_slurm(path, list(settings), {"Line": ["Word", "Last"]}, locale)
    assert read == {"good": True, "settings": settings, "lines": lines}
    assert len(settings) > 200 and len(given_values) - len(settings) > 20


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"Prolog=x SlurmUser": 1}, "configs/x.yml: 'Prolog=x SlurmUser' is not the name of a setting"),
        ({1: 2}, "configs/x.yml: 1 is not the name of a setting"),
        ({"MailProg": None}, "configs/x.yml: 'MailProg' has no value"),
        ({"MailProg": "a\nb"}, "configs/x.yml: MailProg: has the control character U+000A"),
        ({"MailProg": "a\u2028b"}, "configs/x.yml: MailProg: has the line separator U+2028"),
        ({"MailProg": 'a "b"'}, "configs/x.yml: MailProg: has double quotes, which Slurm does not keep"),
    ],
)
def test_a_users_file_is_checked_before_anything_is_written(settings: dict[Any, Any], words: str) -> None:
    with pytest.raises(WrongUse) as refused:
        check(settings, [], "configs/x.yml")
    assert str(refused.value).startswith(words)
    check({"MailProg": OMIT, "SchedulerParameters": {"bf_interval": 5}}, [{"name": "p"}], "configs/x.yml")


@pytest.mark.parametrize("name", [None, "a b", "a,b", 'a"', "a|b", "a\nb", "a#b", "a=b"])
def test_a_partition_without_a_name_of_one_word_is_refused(name: Any) -> None:
    with pytest.raises(WrongUse, match=r"^slurm.conf: partition .*: the name is not one word"):
        render({}, [], [{"name": name}])

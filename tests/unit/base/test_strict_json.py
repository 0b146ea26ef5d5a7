"""The reader of JSON that other users may have written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_mirage.base import strict_json
from slurm_mirage.base.strict_json import (
    COUNT,
    FLAG,
    INSTANT,
    TEXT,
    Damaged,
    Each,
    Either,
    Maybe,
    Name,
    Named,
    NotStrict,
    Object,
    Row,
    Text,
)

SHAPE = Object(
    {
        "event": Text(words=("ended", "halted")),
        "index": COUNT,
        "real": INSTANT,
        "since": Maybe(INSTANT),
        "pairs": Maybe(Each(Row((COUNT, COUNT)), most=3)),
        "states": Maybe(Named(COUNT, needed=("running",))),
        "is_sure": Maybe(FLAG),
        "folder": Maybe(Name()),
        "cost": Maybe(Either((INSTANT, Object({"seconds": INSTANT})), "a number or an object")),
    }
)
GOOD = '{"event": "ended", "index": 3, "real": 1.5, %s}'


def test_what_has_the_shape_is_read_with_its_further_members() -> None:
    more = '"pairs": [[1, 2]], "states": {"running": 1}, "is_sure": true, "cost": {"seconds": 0}, "other": ["a", null, -1.5e3]'
    assert strict_json.parse(GOOD % f'"folder": "..a", {more}', SHAPE)["other"] == ["a", None, -1500.0]
    assert strict_json.parse(b'"\xc3\xa9"', TEXT) == "é"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON: "),
        ("{", "is not JSON: "),
        ("[] x", "is not JSON: "),
        ("[NaN]", "has the number NaN"),
        ("[-Infinity]", "has the number -Infinity"),
        ("[1e400]", "has the number 1e400, which is too large"),
        ("[1e300]", "has the number 1e300, which is too large"),
        ("[%s]" % ("9" * 100_000), "which is too large"),
        ('{"a": 1, "b": 2, "a": 3}', "has two members 'a' in one object"),
        ("[" * 200_000, "has more than 32 nested objects and lists"),
        ("[" * 33 + "]" * 33, "has more than 32 nested objects and lists"),
        ('{"a":' * 33 + "1" + "}" * 33, "has more than 32 nested objects and lists"),
        ('["\\ud800"]', "has a text that is not Unicode"),
    ],
)
def test_what_is_no_json_of_ours_is_refused(text: str, message: str) -> None:
    with pytest.raises(NotStrict) as caught:
        strict_json.parse(text)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def test_depth_counts_no_brackets_of_texts() -> None:
    assert strict_json.parse('["%s"]' % ("[" * 100)) == ["[" * 100]
    assert strict_json.parse("[" * 32 + "]" * 32)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "it may be an object, not []"),
        ('{"event": "begun"}', "event may be ended or halted, not 'begun'"),
        ('{"event": "ended", "index": true, "real": 1}', "index may be a whole number from 0 to "),
        ('{"event": "ended", "index": 1.0, "real": 1}', "index may be a whole number from 0 to "),
        ('{"event": "ended", "index": -1, "real": 1}', "index may be a whole number from 0 to "),
        ('{"event": "ended", "index": 1}', "real is missing"),
        ('{"event": "ended", "index": 1, "real": 1e10}', "real may be a number from 0 to 9000000000, not 10000000000.0"),
        (GOOD % '"since": "x"', "since may be a number from 0 to 9000000000, not 'x'"),
        (GOOD % '"pairs": [[1, 2], [3]]', "pairs[1] may be a list of 2 values, not [3]"),
        (GOOD % '"pairs": [[1, 2], [3, null]]', "pairs[1][1] may be a whole number from 0 to "),
        (GOOD % '"pairs": [1, 2, 3, 4]', "pairs may be a list of up to 3 values, not [1, 2, 3, 4]"),
        (GOOD % '"states": {}', "states.running is missing"),
        (GOOD % '"states": {"running": 1, "a\\nb": "x"}', "states.a\\nb may be a whole number from 0 to "),
        (GOOD % '"is_sure": 1', "is_sure may be true or false, not 1"),
        *(
            (GOOD % f'"folder": "{name}"', "folder may be a name without /")
            for name in ("", ".", "..", "/", "a/b", "../a", "a" * 256)
        ),
        (GOOD % '"cost": {}', "cost may be a number or an object, not {}"),
    ],
)
def test_the_place_is_named_that_has_another_shape(text: str, message: str) -> None:
    with pytest.raises(NotStrict) as caught:
        strict_json.parse(text, SHAPE)
    assert str(caught.value).startswith(message)
    assert str(caught.value).isprintable()
    with pytest.raises(NotStrict):
        strict_json.parse(b"\xff")


def test_a_file_is_read_whole_and_named_if_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(FileNotFoundError):
        strict_json.read(path)
    path.write_text('{"ended": "x"}')
    with pytest.raises(Damaged, match=f"^{path}: ended may be a number"):
        strict_json.read(path, Object({"ended": INSTANT}))
    with pytest.raises(Damaged, match=f"^{path}: is larger than 5 bytes"):
        strict_json.read(path, longest=5)
    with pytest.raises(Damaged, match=f"^{tmp_path}: cannot be read|^{tmp_path}: is not a regular file"):
        strict_json.read(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Damaged, match="fifo: is not a regular file"):
        strict_json.read(tmp_path / "fifo")

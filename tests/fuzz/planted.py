"""Words planted in every text field of every input: they are never run, never read as a path, and never begin another setting.

A word has a mark at each end (`BEGIN`, `END`). Wherever one mark comes out again, the whole word has to come out, letter by letter.
The fields come from the parsers' own tables, so a field that a parser learns is covered without a change here.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from captures import ASSOC, COLUMNS, CONF, EVENT_COLUMNS, GRES, JOBS, QOS, RESERVATION_COLUMNS, TOPOLOGY, capture, table
from captures import BEGIN as MIDNIGHT

from mirage.cluster_events import user_file
from mirage.knobs.machine import KEYS
from mirage.site import archive, site_words
from mirage.traces import batsim_csv, sacct_table
from slurm_mirage.base.strict_json import Each, Named, Text
from tests.fuzz import readers

BEGIN, END = "zqa", "zqz"


@dataclass(frozen=True)
class Word:
    """A planted word. kind: jinja, shell, newline, path or html; text: with its marks."""

    kind: str
    text: str


def words(canary: Path) -> list[Word]:
    """The five kinds of words. Whatever they make a program do leaves a file in the folder `canary`, or shows the text of
    `canary`/secret."""
    touch = f"touch${{IFS}}{canary}/"
    payloads = {
        "jinja": "{{lookup('ansible.builtin.pipe','TOUCHjinja')}}{%if(1)%}x{%endif%}",
        "shell": "$(TOUCHdollar)`TOUCHtick`;TOUCHsemicolon|TOUCHbar&';TOUCHquote",
        "newline": f"x\nProlog={canary}/secret\nNodeName=planted\rSlurmUser=root\n",
        "path": f"../../../../../../../../../..{canary}/secret",
        "html": "<script>alert(7)</script><img/src=x/onerror=alert(7)>&lt;",
    }
    return [Word(kind, f"{BEGIN}{text.replace('TOUCH', touch)}{END}") for kind, text in payloads.items()]


@dataclass(frozen=True)
class Field:
    """A text field of an input.

    kind: the input, a key of READERS or one of `site`, `events`, `classes`; name: the field; write: writes the input with a word in
    this field into a folder, and returns its path
    """

    kind: str
    name: str
    write: Callable[[Path, str], Path]

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


Writer = Callable[[Path, str], Path]


def _file(name: str, text: Callable[[str], str]) -> Writer:
    """Writes a file of this name; text: its content with a word."""

    def write(folder: Path, word: str) -> Path:
        path = folder / name
        path.write_text(text(word), newline="")
        return path

    return write


def _conf(line: str) -> Writer:
    """Writes a slurm.conf whose last line has the word in the place of WORD."""
    return _file("slurm.conf", lambda word: f"{readers.SLURM_CONF.decode()}{line.replace('WORD', word)}\n")


def _slurm_conf() -> Iterator[Field]:
    for name in sorted({*site_words.TAKEN, *(name for _, _, names in site_words.OVERRIDDEN for name in names), "ClusterName"}):
        yield Field("slurm.conf", name, _conf(f'{name}="WORD"'))
    for name in site_words.TAKEN:
        yield Field("slurm.conf", f"{name}, no quotes", _conf(f"{name}=WORD"))
    for name in sorted({*site_words.NODE_TAKEN, *site_words.NODE_OVERRIDDEN}):
        yield Field("slurm.conf", f"NodeName {name}", _conf(f'NodeName=x1 {name}="WORD"'))
    for name in sorted({*site_words.PARTITION_TAKEN, *site_words.PARTITION_OVERRIDDEN, *site_words.OF_ACCOUNTS}):
        yield Field("slurm.conf", f"PartitionName {name}", _conf(f'PartitionName=x Nodes=cn1 {name}="WORD"'))
    for key in ("NodeName", "PartitionName", "NodeSet", "Include", "DownNodes", "FrontendName"):
        yield Field("slurm.conf", key, _conf(f'{key}="WORD"'))


def _columns(
    kind: str, file: str, heading: Sequence[str], row: Mapping[str, Any], delimiter: str, names: Sequence[str]
) -> Iterator[Field]:
    """A field for each of the columns `names` of a table with one usual row and one that has the word."""

    def text(word: str, name: str) -> str:
        columns = [*heading, *([] if name in heading else [name])]
        written = io.StringIO()
        writer = csv.writer(written, delimiter=delimiter, lineterminator="\n")
        if delimiter != ",":
            writer = csv.writer(
                written, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None, escapechar="\0"
            )
        writer.writerow(columns)
        for number in range(4):
            fields = {**row, **(_numbered(row, number)), **({name: word} if number == 3 else {})}
            writer.writerow([fields.get(column, "") for column in columns])
        return written.getvalue().replace("\0", "")

    for name in names:
        yield Field(kind, name, _file(file, lambda word, name=name: text(word, name)))


def _numbered(row: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {name: number + 1 for name in ("JobID", "JobIDRaw", "job_id", "id") if name in row}


_SACCT_ROW = {
    "JobID": 1, "JobIDRaw": 1, "User": "u_b", "Account": "a_1", "Partition": "cpu", "QOS": "normal", "State": "COMPLETED",
    "Submit": "2026-03-01T10:00:00", "Start": "2026-03-01T10:00:30", "End": "2026-03-01T10:02:30", "Elapsed": "00:02:00",
    "AllocCPUS": 4, "ReqCPUS": 4, "SubmitLine": "sbatch a.sh",
}  # fmt: skip
_BATSIM_ROW = {
    "job_id": 1, "submission_time": 0.0, "requested_number_of_resources": 4, "final_state": "COMPLETED_SUCCESSFULLY",
    "starting_time": 5.5, "finish_time": 15.5, "allocated_resources": "0-3",
}  # fmt: skip


def _logs() -> Iterator[Field]:
    yield from _columns("sacct", "log.txt", list(_SACCT_ROW), _SACCT_ROW, "|", sorted(set(sacct_table._NAMES)))
    yield from _columns("sacct csv", "log.csv", list(_SACCT_ROW), _SACCT_ROW, ",", sorted(set(sacct_table._NAMES)))
    names = sorted({name for those in batsim_csv._NAMES.values() for name in those})
    yield from _columns("batsim", "jobs.csv", list(_BATSIM_ROW), _BATSIM_ROW, ",", names)
    swf = readers.SWF.decode()
    for label in ("Computer", "Note", "Queue", "Partition", "TimeZoneString", "UnixStartTime", "MaxProcs", "Planted"):
        yield Field("swf", label, _file("log.swf", lambda word, label=label: f"; {label}: {word}\n{swf}"))
    plain = json.loads(readers.JSON)
    for place in _texts(plain):
        yield Field("json", ".".join(map(str, place)), _file("log.json", lambda word, p=place: json.dumps(_with(plain, p, word))))


def _texts(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all texts in a JSON value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, (*place, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, (*place, number))
    elif isinstance(value, str):
        yield place


def _with(value: Any, place: tuple[Any, ...], word: str) -> Any:
    if not place:
        return word
    if isinstance(value, Mapping):
        return {key: _with(inner, place[1:], word) if key == place[0] else inner for key, inner in value.items()}
    return [_with(inner, place[1:], word) if number == place[0] else inner for number, inner in enumerate(value)]


def _events() -> Iterator[Field]:
    usual = {"instant": "60", "action": "down", "target": "n1", "argument": ""}
    for name in user_file.HEADING:
        yield from _columns("events", "events.csv", list(usual), usual, ",", [name])


def _classes() -> Iterator[Field]:
    usual = {"count": 4, "cpus": 16, "prefix": "n"}
    for name in KEYS:
        yield Field("classes", name, _file("classes.yml", lambda word, name=name: json.dumps([{**usual, name: word}])))
    for key in ("Feature", "Gres", "Weight", "RealMemory"):
        yield Field(
            "classes", f"extra {key}", _file("classes.yml", lambda word, k=key: json.dumps([{**usual, "extra": {k: word}}]))
        )
    yield Field("classes", "extra's key", _file("classes.yml", lambda word: json.dumps([{**usual, "extra": {word: "1"}}])))


def _archive() -> Iterator[Field]:
    event = ("s_1", "Node", "", "c01", MIDNIGHT + 30, MIDNIGHT + 90, "DOWN", 1, "u_b", "broken")
    reservation = ("s_1", "maintenance", 1, "cpu=16", MIDNIGHT + 600, MIDNIGHT + 900, 0, "MAINT", "c02", "")
    tables = {
        "sacct/20261031T230000Z.txt": table(COLUMNS, *JOBS),
        "sacctmgr/assoc.txt": ASSOC,
        "sacctmgr/qos.txt": QOS,
        "sacctmgr/event.txt": table(EVENT_COLUMNS, event),
        "sacctmgr/reservation.txt": table(RESERVATION_COLUMNS, reservation),
    }

    def write(name: str, row: int, column: int) -> Callable[[Path, str], Path]:
        lines = [line.split("\t") for line in tables[name].splitlines()]

        def written(folder: Path, word: str) -> Path:
            fields = [[*line] for line in lines]
            fields[row][column] = word
            parts = {**tables, name: "".join("\t".join(line) + "\n" for line in fields)}
            return capture(folder, dict(parts))

        return written

    for name, text in tables.items():
        lines = text.splitlines()
        row = {"sacctmgr/assoc.txt": 5, "sacctmgr/qos.txt": 2}.get(name, 1)  # an association of a user, a QOS that is not `normal`
        for column, heading in enumerate(lines[0].split("\t")):
            yield Field("site", f"{name} {heading}", write(name, row, column))
    for name, text in {"conf/slurm.conf": CONF, "conf/gres.conf": GRES, "conf/topology.conf": TOPOLOGY}.items():
        values = sorted({word.partition("=")[2] for line in text.splitlines() for word in line.split() if "=" in word})
        for value in values:
            yield Field("site", f"{name} {value}", _part(name, text, value))
    switches = [{"switch": "s1", "nodes": "c[01-04]"}, {"switch": "top", "children": "s1"}]
    tree = json.dumps([{"topology": "t1", "tree": {"switches": switches}}, {"topology": "t2", "flat": True}])
    for value in ("t1", "tree", "s1", "c[01-04]", "top", "t2", "flat", "true"):
        yield Field("site", f"conf/topology.yaml {value}", _yaml(tree, value))
    for member, shape in archive._SHAPE.members.items():
        if isinstance(shape, Text):
            yield Field("site", f"manifest {member}", _manifest(lambda word, member=member: {member: word}))
        elif isinstance(shape, Each):
            yield Field("site", f"manifest {member}", _manifest(lambda word, member=member: {member: [word]}))
        elif isinstance(shape, Named) and isinstance(shape.of, Text):
            yield Field("site", f"manifest {member}", _manifest(lambda word, member=member: {member: {word: word}}))


def _part(name: str, text: str, value: str) -> Writer:
    """Writes an archive with the word in the place of a value in a configuration file."""
    return lambda folder, word: capture(folder, {name: text.replace(f"={value}", f'="{word}"', 1)})


def _yaml(text: str, value: str) -> Writer:
    """Writes an archive with the word in the place of a value in topology.yaml."""
    old = value if value == "true" else f'"{value}"'
    return lambda folder, word: capture(folder, {"conf/topology.yaml": text.replace(old, json.dumps(word), 1)})


def _manifest(members: Callable[[str], dict[str, Any]]) -> Writer:
    """Writes an archive with these members of its manifest."""
    return lambda folder, word: capture(folder, **members(word))


FIELDS = [*_slurm_conf(), *_logs(), *_events(), *_classes(), *_archive()]

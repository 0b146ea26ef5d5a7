"""Each field of each input with a planted word: nothing is run or read, and the word comes out whole, or is refused in one line."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirage.experiment.cluster_variables import cluster_variables
from mirage.experiment.prepare import Prepared, source
from mirage.experiment.site import LEFT_OUT, write
from mirage.experiment.variables import replay_variables
from mirage.knobs.knobs import Knobs
from mirage.knobs.resolve import resolve
from mirage.knobs.table import TABLE
from mirage.records.schedule import read_schedule
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.instance.slurm_configuration import configure
from tests.fuzz.planted import BEGIN, END, FIELDS, Field, Word, words

SECRET = "TOPSECRET-first-line"
STARTED = re.compile(r"^\s*(Prolog=|SlurmUser=root|NodeName=planted)", re.MULTILINE | re.IGNORECASE)
"""A setting that a planted word would begin."""
ROLE = yaml.safe_load((Path(__file__).parents[2] / "roles/slurm_controller/defaults/main.yml").read_text())
KNOB_OF = {"slurm.conf": "SLURM_CONF", "site": "SITE", "events": "EVENTS", "classes": "CLASSES"}


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    folder = tmp_path / "canary"
    folder.mkdir()
    (folder / "secret").write_text(f"{SECRET}\nNodeName={SECRET}\n")
    return folder


def groups() -> list[tuple[str, int]]:
    """The inputs in parts of at most 30 fields, so that processes share the work."""
    counts = {kind: sum(field.kind == kind for field in FIELDS) for kind in dict.fromkeys(field.kind for field in FIELDS)}
    return [(kind, part) for kind, count in counts.items() for part in range(0, count, 30)]


@pytest.mark.parametrize(("kind", "first"), groups())
def test_a_planted_word_is_data(kind: str, first: int, tmp_path: Path, canary: Path) -> None:
    fields = [field for field in FIELDS if field.kind == kind][first : first + 30]
    wrong = []
    for number, (field, word) in enumerate((field, word) for field in fields for word in words(canary)):
        folder = tmp_path / str(number)
        folder.mkdir()
        wrong += [f"{field}, {word.kind}: {fault}" for fault in faults(field, word, folder)]
    wrong += [f"{path.name} was made" for path in canary.iterdir() if path.name != "secret"]
    assert not wrong, "\n".join(wrong)


def test_there_are_as_many_fields_as_the_parsers_have() -> None:
    assert len(FIELDS) > 500


def faults(field: Field, word: Word, folder: Path) -> Iterator[str]:
    """What is wrong with how the word in this field is taken."""
    path = field.write(folder, word.text)
    try:
        outputs = list(used(field.kind, path, folder))
    except WrongUse as error:
        line = str(error)
        if len(line.splitlines()) != 1 or not line.isprintable():
            yield f"no single line: {line!r}"
        elif path.name not in line and KNOB_OF.get(field.kind, "TRACE") not in error.module_message():
            yield f"names no file: {line!r}"
        elif SECRET in line:
            yield f"shows the secret: {line!r}"
        return
    for place, text in outputs:
        if SECRET in text:
            yield f"{place} has the secret"
        if STARTED.search(text) and place.endswith(".conf"):
            yield f"{place} has a setting of the word's own: {STARTED.findall(text)}"
        if not place.endswith(".conf") and not is_whole(word, text):
            yield f"{place} has a part of it: {text[:90]!r}"


def is_whole(word: Word, text: str) -> bool:
    """Whether the word stands in a text with all its letters, or an element of the list that it is where a comma or = separates."""
    rest = text.replace(word.text, "")
    for piece in re.split("[,=]", word.text):
        rest = rest.replace(piece, "") if BEGIN in piece or END in piece else rest
    return BEGIN not in rest and END not in rest


def used(kind: str, path: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Use an input as make would, as far as no cluster is needed: place and text of all that it leads to."""
    given = {KNOB_OF.get(kind, "TRACE"): str(path), "SPEED": "event"}
    if kind in ("slurm.conf", "classes"):
        knobs = resolve({"MIRAGE_GIVEN": " ".join(given), **given}, "cluster")
        yield from _configured(knobs, cluster_variables(knobs), folder)
        return
    if kind == "events":
        given |= {"NODES": "4", "JOBS": "5"}
    elif kind != "site":
        given |= {"SIZES": "fit"}
        read_schedule(path)
    knobs = resolve({"MIRAGE_GIVEN": " ".join(given), **given}, "experiment")
    run = Prepared.make(knobs, source(knobs.workload, knobs.nodes.machine).trace, knobs.jobs.shrinks[0])
    results = folder / "run"
    run.write(results, {"run": "run"})
    for file in sorted(results.iterdir()):
        yield from _texts_of_file(file)
    yield from _configured(knobs, replay_variables(run, "event", "run", results), folder)


def _configured(knobs: Knobs, variables: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, str]]:
    """What Ansible gets, and the files that the module slurm_config would write."""
    yield from _leaves("variables", json.loads(json.dumps(variables, default=str)))
    write(knobs.scheduler, folder / LEFT_OUT)
    if (folder / LEFT_OUT).exists():
        yield from _texts_of_file(folder / LEFT_OUT)
    options = {
        "directory": str(folder), "settings": variables.get("slurm_controller_site_settings", {}), "port": 17000, "ports": 4000,
        "nodes": variables.get("slurm_controller_nodes", [{"count": 4, "cpus": 16}]), "address": "127.0.0.1",
        "hostname": "localhost", "hosts": [], "known": "", "front_ends": 0, "wide_steps": True, "speed": 1.0, "extras": {},
        "event_clock": True, "silent_nodes": False, "controllers": 1, "second_name": "",
        "second_address": "", "version": "", "topology": variables.get("slurm_controller_topology", ""), "others": {},
        "partitions": variables.get("slurm_controller_partitions") or [{"name": "batch"}],
    }  # fmt: skip
    (folder / "etc").mkdir()
    configure(options, True)
    for file in sorted((folder / "etc").iterdir()):
        yield file.name, file.read_text()


def _texts_of_file(file: Path) -> Iterator[tuple[str, str]]:
    text = file.read_text()
    if file.suffix == ".csv":
        for row in csv.reader(text.splitlines(keepends=True)):
            yield from ((file.name, cell) for cell in row)
    elif file.suffix == ".json":
        yield from _leaves(file.name, json.loads(text))
    else:
        yield from ((file.name, line) for line in text.splitlines())


def _leaves(place: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield place, str(key)
            yield from _leaves(place, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(place, inner)
    elif isinstance(value, str):
        yield place, value


@pytest.mark.parametrize("knob", TABLE, ids=lambda knob: str(knob.name))
def test_a_planted_word_in_a_knob_is_data(knob: Any, tmp_path: Path, canary: Path) -> None:
    for word in words(canary):
        try:
            knobs = resolve({"MIRAGE_GIVEN": knob.name, knob.name: word.text}, knob.targets[0])
            leaves = list(_leaves("variables", json.loads(json.dumps(cluster_variables(knobs), default=str))))
        except WrongUse as error:
            line = error.module_message()
            assert len(line.splitlines()) == 1 and line.isprintable() and SECRET not in line, line
            continue
        for _, text in leaves:
            assert is_whole(word, text), text
    assert [path.name for path in canary.iterdir()] == ["secret"]

"""RUN_FILE: which files are refused with which words, what precedes what, and that a run's own file makes the same run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from other_managers import OTHERS

from mirage.experiment import runs
from mirage.knobs import resolve as knobs
from mirage.knobs import run_file
from mirage.knobs.table import BY_NAME
from slurm_mirage.base.errors import WrongUse

LINE = "it may be a knob in each line, as in NODES: 100"


def read(tmp_path: Path, content: bytes | str, name: str = "week.yml") -> dict[str, str]:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return run_file.read(str(path))


@pytest.mark.parametrize("content", ["# nothing\n", "---\n", "{}\n"])
def test_a_file_without_knobs(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, content) == {}


def test_values_are_the_texts_that_a_user_types(tmp_path: Path) -> None:
    typed = {
        "CHARGE": "yes", "STEPS": "no", "FILLER": "on", "NODES": "010", "CPUS": "0x10", "JOBS": "1e3", "SHRINK": "100:50:10",
        "LOAD": ".5", "FROM": "2026-03-01", "TO": "2026-03-01T12:00:00", "WARMUP_CUT": "5%",
        "LIMITS": "wait_p95:+10% wait_mean:+60s",
        "USERS": "12,40", "MODEL": "null", "TRACE": "~", "MAINTENANCE": "weekly tue 08:00 6h all", "QUEUES": "",
    }  # fmt: skip
    content = "".join(f"{name}: {text}\n" for name, text in typed.items())
    assert read(tmp_path, content) == typed
    assert read(tmp_path, '# a week\nCHARGE: \'yes\' # quoted\n"SAVES": "disk"\n') == {"CHARGE": "yes", "SAVES": "disk"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", f": is empty; {LINE}"),
        ("nodes: 8", " line 1: nodes: there is no such knob; did you mean NODES?"),
        ("CPUS: 1\nNODE: 8", " line 2: NODE: there is no such knob; did you mean NODES?"),
        (f"{'x' * 100}: 1", f" line 1: {'x' * 60}...: there is no such knob"),
        ("NODES: 1\nNODES: 2", " line 2: NODES: is there twice"),
        ("NODES: [1]", f" line 1: NODES: is a list or a mapping; {LINE}"),
        ("NODES: {a: 1}", f" line 1: NODES: is a list or a mapping; {LINE}"),
        ("- NODES", f" line 1: the file: is a list or a mapping; {LINE}"),
        ("? {NODES: 1}\n: 2", f" line 1: the file: is a list or a mapping; {LINE}"),
        ("NODES=8", f" line 1: is a text; {LINE}"),
        ("NODES: &a 1", " line 1: NODES: has an anchor or an alias; a knob has a plain value"),
        ("NODES: 1\nCPUS: *a", " line 2: CPUS: has an anchor or an alias; a knob has a plain value"),
        ("&a {NODES: 1}", " line 1: the file: has an anchor or an alias; a knob has a plain value"),
        ("NODES: !!python/object/apply:os.system [x]", " line 1: NODES: has a tag; a knob has a plain value"),
        ("NODES: ! 1", " line 1: NODES: has a tag; a knob has a plain value"),
        ("!!map {NODES: 1}", " line 1: the file: has a tag; a knob has a plain value"),
        ("NODES: 1\n---\nNODES: 2", " line 2: begins a second document; a file may have one"),
        ("<<: {NODES: 1}", " line 1: <<: there is no such knob"),
        ("NODES: 8\n  CPUS: 3", f" line 2: is not YAML; {LINE}"),
        ("NODES: 'x", f" line 1: is not YAML; {LINE}"),
        ("NODES: 1\x07", f": is not YAML; {LINE}"),
        (b"\xff\xfeN\0", ": is not UTF-8 (byte 1)"),
        ('TRACE: "a\\0b"', " line 1: TRACE: has a character that no knob can have"),
        ('TRACE: "a\\uD800b"', " line 1: TRACE: has a character that no knob can have"),
        ("RUN_FILE: other.yml", " line 1: RUN_FILE: a file cannot name another one"),
        ("INVENTORY: mine", " line 1: INVENTORY: what is in its file is run, so give it to make too: INVENTORY=mine"),
        ("NODES: 1\nSLURMS: a b", " line 2: SLURMS: what is in its file is run, so give it to make too: SLURMS=a b"),
        ("OUT: /etc/x", " line 1: OUT: it names a file to write, so give it to make too: OUT=/etc/x"),
        ("TRACE: /etc/shadow", " line 1: TRACE: it names a file outside of this folder, so give it to make too: TRACE=/etc/shadow"),
        (
            "SITE: a/../../b",
            " line 1: SITE: it names a file outside of this folder, so give it to make too: SITE=a/../../b",
        ),
        (
            "FILLER_JOBS: work=/etc/shadow",
            " line 1: FILLER_JOBS: it names a file outside of this folder, so give it to make too: FILLER_JOBS=work=/etc/shadow",
        ),
        ("[" * 60_000, f" line 1: the file: is a list or a mapping; {LINE}"),
        ("#" * 70_000, ": is too large; it may have up to 64 KiB"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, content: bytes | str, words: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        read(tmp_path, content)
    assert knobs.user_message(refusal.value) == f"RUN_FILE: {tmp_path}/week.yml{words}"


def test_knobs_whose_files_are_run_or_written_are_in_the_table() -> None:
    """A new knob that takes a source, a command or a file to write belongs to ONLY_GIVEN."""
    assert set(run_file.ONLY_GIVEN) <= set(BY_NAME)
    sources = {name for name, knob in BY_NAME.items() if name.endswith(("_SOURCE", "SLURMS")) or " to write" in knob.may_be}
    assert sources <= set(run_file.ONLY_GIVEN)


# ---- precedence ----


def applied(tmp_path: Path, content: str, given_names: str = "", target: str = "experiment", **environ: str) -> dict[str, str]:
    (tmp_path / "week.yml").write_text(content)
    environment = {**environ, "RUN_FILE": str(tmp_path / "week.yml"), knobs.GIVEN: f"{given_names} RUN_FILE".strip()}
    run_file.apply(environment, target)
    return environment


def test_what_is_given_otherwise_has_precedence(tmp_path: Path) -> None:
    environ = applied(
        tmp_path, "NODES: 8\nCPUS: 2\nJOBS: 20\nSEED: 3\n", "NODES JOBS", NODES="4", JOBS="", SEED="", CPUS="1"
    )  # JOBS= of the command line is the default; an empty variable of the environment is none
    values = knobs.resolve(environ, "experiment")
    assert (values.nodes.count, values.nodes.cpus, values.workload.jobs, values.workload.seed) == (4, 1, None, 3)


def test_the_slurm_conf_of_slurms_own_commands_does_not_count(tmp_path: Path) -> None:
    environ = applied(tmp_path, "SLURM_CONF: not/there\n", SLURM_CONF="/etc/slurm/slurm.conf")
    assert environ["SLURM_CONF"] == "not/there"
    with pytest.raises(WrongUse, match=r"^slurm_conf: not/there: cannot be read"):
        knobs.resolve(environ, "experiment")


@pytest.mark.parametrize(
    ("content", "words"),
    [("NODES: many", "NODES: 'many' (in {}) is not possible"), ("CLASSES: not/there", "No such file or directory) (in {})")],
)
def test_a_wrong_value_is_told_with_the_file(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        knobs.resolve(applied(tmp_path, content), "experiment")
    assert words.format(tmp_path / "week.yml") in str(refusal.value)


def test_a_file_that_is_run_counts_if_it_is_given_to_make_too(tmp_path: Path) -> None:
    environ = applied(tmp_path, "INVENTORY: theirs\nEVENTS: theirs.csv\n", "INVENTORY EVENTS", INVENTORY="mine", EVENTS="mine.csv")
    assert (environ["INVENTORY"], environ["EVENTS"]) == ("mine", "mine.csv")
    with pytest.raises(WrongUse, match="EVENTS: what is in its file is run"):
        applied(tmp_path, "EVENTS: theirs.csv\n", "INVENTORY", INVENTORY="mine")


def test_a_reader_cannot_add_other_names(tmp_path: Path) -> None:
    environ = {"RUN_FILE": "x"}
    run_file.apply(environ, "simulate", lambda *_: {"OUT": "/etc/x", "PATH": "/tmp", "LD_PRELOAD": "x", "NODES": "3"})
    assert {name: environ.get(name) for name in ("OUT", "PATH", "LD_PRELOAD", "NODES")} == {
        "OUT": None, "PATH": None, "LD_PRELOAD": None, "NODES": "3",
    }  # fmt: skip


def test_targets_without_a_run_do_not_read_it() -> None:
    environ = {"RUN_FILE": "/nowhere", knobs.GIVEN: "RUN_FILE"}
    run_file.apply(environ, "status")
    assert knobs.OF_FILE not in environ and knobs.unused("status", environ) == ["RUN_FILE"]


def test_knobs_of_the_file_that_a_target_does_not_use_are_one_note(tmp_path: Path) -> None:
    environ = applied(tmp_path, "NODES: 8\nJOBS: 3\nTRACE: a.swf\n", "TAU", "cluster", TAU="3")
    assert knobs.unused("cluster", environ) == ["TAU", f"JOBS, TRACE of {tmp_path}/week.yml"]


# ---- the file of a run ----

NAMES = st.sampled_from([name for name in BY_NAME if name not in {*run_file.ONLY_GIVEN, "RUN_FILE"}])
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)


@given(
    st.dictionaries(
        NAMES,
        TEXTS
        | st.sampled_from(
            ["yes", "~", "/a/../b", "a\x85b", "\u2028", "a: b", "#", "'", "- x", "\udcff", "&a", "!x", "%", "[", "{}"]
        ),
    )
)
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("written") / "week.yml"
    path.write_text(run_file.as_yaml(texts))
    # Paths that leave the folder count, as they are given to make too.
    assert run_file.read(str(path), lambda _: True) == texts


def test_a_path_below_the_current_folder_is_written_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inside = {"TRACE": str(tmp_path / "logs/a.swf"), knobs.GIVEN: "TRACE"}
    assert written(inside) == {"TRACE": "logs/a.swf"}
    outside = {"TRACE": "/data/a.swf", knobs.GIVEN: "TRACE"}
    assert written(outside) == {"TRACE": "/data/a.swf"}


def written(environ: dict[str, str], target: str = "experiment") -> dict[str, str]:
    return run_file.to_write(environ, knobs.resolve(environ, target), target)


@pytest.mark.parametrize(
    ("given_texts", "kept"),
    [
        ({}, {}),
        ({"NODES": "360", "SHRINK": "100.0", "CHARGE": "no"}, {}),
        ({"NODES": "8", "JOBS": "20", "CLUSTER": "x", "RUN": "r"}, {"NODES": "8", "JOBS": "20", "CLUSTER": "x"}),
        ({"SHRINK": "100:50:10", "BUDGET": "2h"}, {"SHRINK": "100:50:10", "BUDGET": "2h"}),
        # Here the default is another one than that of the table.
        ({"SHRINK": "50", "CONFIG": "slurm-defaults"}, {"SHRINK": "50", "CONFIG": "slurm-defaults"}),
        ({"SHRINK": "50", "CONFIG": "backfill"}, {"SHRINK": "50", "CONFIG": "backfill"}),
        ({"CONFIG": "slurm-defaults"}, {}),
        (
            {"INVENTORY": "inventories/openstack", "NODES": "360", "JOBS": ""},
            {"INVENTORY": "inventories/openstack", "NODES": "360"},
        ),
    ],
)
def test_a_run_keeps_what_makes_it(given_texts: dict[str, str], kept: dict[str, str]) -> None:
    environ = {**given_texts, knobs.GIVEN: " ".join(given_texts), "SLURM_CONF": "/etc/slurm/slurm.conf"}
    assert written(environ) == kept


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "NODES": st.sampled_from(["8", "360"]),
            "SHRINK": st.sampled_from(["100", "50", "100:50:25"]),
            "CONFIG": st.sampled_from(["slurm-defaults", "backfill", "fifo"]),
            "RM": st.sampled_from(["slurm", *OTHERS]),
            "SUBMISSION": st.just("period=900 size=2"),
            "MARGIN": st.sampled_from(["5", "5%", "7%"]),
            "CHARGE": st.sampled_from(["yes", "no"]),
            "TRACE": st.text("ab '\"#:%\u00e9", min_size=1),
        },
    )
)
def test_the_file_of_a_run_gives_the_same_knobs(tmp_path_factory: pytest.TempPathFactory, typed: dict[str, str]) -> None:
    folder = tmp_path_factory.mktemp("run")
    environ = {**typed, knobs.GIVEN: " ".join(typed)}
    first = knobs.resolve(environ, "experiment")
    runs.keep_knobs(folder, replace(first, texts=written(environ)))
    again = applied(folder, (folder / "knobs.yml").read_text())
    path = again.pop("RUN_FILE")
    second = knobs.resolve({**again, "RUN_FILE": path}, "experiment")
    assert replace(second, output=first.output) == first


def test_a_study_writes_none(tmp_path: Path) -> None:
    runs.keep_knobs(tmp_path, knobs.resolve({}, "study-scms"))
    assert list(tmp_path.iterdir()) == []

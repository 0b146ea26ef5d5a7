"""The last words of daemons, from logs as the daemons write them, and the advice about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_mirage.farm.last_words import LONGEST, NO_WORDS, advice, last_words

MUNGED = """munged: Notice: Starting munge-0.5.15 daemon (pid 36201)
munged: Info: Seeded PRNG with 128 bytes from getrandom()
munged: Error: Keyfile must be at least 32 bytes
"""
RETIRED = """slurmctld: error: mpi/pmix_v4: init: can not load PMIx library
slurmctld: slurmctld version 22.05.8 started on cluster h3
slurmctld: error: _parse_next_key: Parsing error at unrecognized key: FooBar
slurmctld: error: ClusterName needs to be specified
slurmctld: fatal: Unable to process configuration file
"""
MARIADB = "2026-11-22  7:00:00 0 [Note] Starting\n2026-11-22  7:00:00 0 [ERROR] mariadbd: Disk is full\n"
LATER = "[2026-11-22T07:00:00.123] fatal: You are running with a database but for some reason we have no TRES\n[...] Terminated\n"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (MUNGED, "Error: Keyfile must be at least 32 bytes"),
        (
            RETIRED,
            "error: _parse_next_key: Parsing error at unrecognized key: FooBar; error: ClusterName needs to be specified; "
            "fatal: Unable to process configuration file",
        ),
        (MARIADB, "[ERROR] mariadbd: Disk is full"),
        (LATER, "fatal: You are running with a database but for some reason we have no TRES"),
        ("slurmctld: error: a\nslurmctld: error: b\nslurmctld: done\n", "error: b"),
        ("munged: Emergency: Failed to lock pages\n", "Emergency: Failed to lock pages"),
        ("nothing of the kind: no error here\n", NO_WORDS),
    ],
)
def test_the_message_that_says_why(tmp_path: Path, log: str, words: str) -> None:
    (tmp_path / "log").write_text(log)
    assert last_words([(tmp_path / "missing", 0), (tmp_path / "log", 0)]) == words


def test_messages_of_an_earlier_life_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(MUNGED)
    assert last_words([(log, len(MUNGED))]) == NO_WORDS
    log.write_text("fatal: new\n")
    assert last_words([(log, len(MUNGED))]) == "fatal: new", "the file was begun anew"


def test_long_words_are_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("fatal: " + "x" * 5000)
    words = last_words([(tmp_path / "log", 0)])
    assert len(words) <= LONGEST and words.startswith("fatal: xxx") and words.endswith("characters more)")


def test_advice(tmp_path: Path) -> None:
    assert "munge.key" in advice("exit 1: Error: Keyfile must be at least 32 bytes", tmp_path)
    assert "move the files of" in advice("fatal: Can not recover job state, incompatible version", tmp_path)
    assert "slurm.conf" in advice("fatal: The FastSchedule option has been removed.", tmp_path)
    assert advice("fatal: something new", tmp_path) == ""
    assert advice("ended by signal 11: error: Invalid partition (old) for JobId=6", tmp_path) == "", "its slurm.conf is right"

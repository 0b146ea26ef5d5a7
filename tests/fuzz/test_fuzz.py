"""Some new mutated files for each reader, in each run of the tests.

The environment variable FUZZ_SEED repeats the files of an earlier run, which a failure names.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Executor

import pytest

from tests.fuzz.readers import READERS
from tests.fuzz.run import fuzz, problem, processes


@pytest.mark.parametrize("name", READERS)
def test_the_unchanged_files_are_read(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    for seed in READERS[name].seeds:
        path = tmp_path_factory.mktemp("seed") / "slurm.conf"
        path.write_bytes(seed)
        assert problem(READERS[name], path) is None


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    """One process for all readers, which takes longer to start than to read the files of most of them."""
    with processes(1) as pool:
        yield pool


@pytest.mark.parametrize("name", READERS)
def test_mutated_files(name: str, pool: Executor) -> None:
    seed = int(os.environ.get("FUZZ_SEED") or secrets.randbelow(1 << 32))
    seen = fuzz(name, seed, READERS[name].files, pool)
    assert seen.files == READERS[name].files
    assert seen.findings == []

"""What OpenPBS leaves on a host outside of an instance."""

from __future__ import annotations

import os
from pathlib import Path

from slurm_mirage.extras.openpbs import leftovers


def test_the_file_of_an_account_is_removed(tmp_path: Path) -> None:
    (tmp_path / f"pbs_head_{os.geteuid()}_1").touch()  # the socket of a qsub
    own, other = tmp_path / f".pbs_last_query_{os.geteuid()}", tmp_path / f".pbs_last_query_{os.geteuid() + 1}"
    own.touch()
    other.touch()
    leftovers.remove(os.geteuid(), tmp_path)
    leftovers.remove(os.geteuid(), tmp_path)
    leftovers.remove(os.geteuid() + 1, tmp_path)  # that file belongs to this account
    assert [path.name for path in tmp_path.iterdir()] == [other.name]

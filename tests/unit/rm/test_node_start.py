"""What a daemon of a node does at its start."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from slurm_mirage.rm.daemon_kinds import WITHOUT_HWLOC_PLUGINS

SLURMD = shutil.which("slurmd", path="/usr/sbin")


@pytest.mark.skipif(SLURMD is None, reason="Debian's package slurmd is not installed")
def test_hwloc_loads_no_plugin_and_slurmd_knows_the_hosts_processors() -> None:
    assert SLURMD
    environment = {**os.environ, "LD_DEBUG": "files"}
    plain, without = (
        subprocess.run([SLURMD, "-C"], env={**environment, **more}, capture_output=True, text=True, check=True, timeout=60)
        for more in ({}, WITHOUT_HWLOC_PLUGINS)
    )
    assert "/hwloc_" in plain.stderr
    assert "/hwloc_" not in without.stderr
    assert plain.stdout.splitlines()[0] == without.stdout.splitlines()[0]

"""Which release of Slurm can go on with a cluster of another one (upgrade guide: two major releases back, three from 24.11 on)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from modules import Caller

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm import release_change

SCONTROL = """#!/bin/sh
echo "slurm 22.05.8"
"""


def change(before: str, now: str) -> None:
    release_change.check(f"# Written\n{release_change.line(before)}ClusterName=mirage\n", now, "mirage")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("22.05.8", "22.05.11"),
        ("22.05.8", "22.05.1"),
        ("16.05.6", "17.11.2"),
        ("22.05.8", "23.11.1"),
        ("23.02.1", "24.05.0"),
        ("23.02.1", "24.11.7"),
        ("24.05.4", "25.11.7"),
        ("24.11.5", "26.05.1"),
        ("slurm-wlm 22.05.8", "23.02.7"),
    ],
)
def test_releases_that_read_what_was_saved(before: str, now: str) -> None:
    change(before, now)


@pytest.mark.parametrize(
    ("before", "now", "names"),
    [
        ("25.11.7", "22.05.8", "built with Slurm 25.11, and 22.05 cannot"),
        ("22.05.8", "25.11.7", "built with Slurm 22.05, and 25.11 cannot"),
        ("22.05.8", "24.05.1", "built with Slurm 22.05, and 24.05 cannot"),
        ("22.05.8", "24.11.1", "built with Slurm 22.05, and 24.11 cannot"),
        ("23.11.1", "25.11.1", "built with Slurm 23.11, and 25.11 cannot"),
        ("22.05.8", "21.08.8", "built with Slurm 22.05, and 21.08 cannot"),
        ("16.05.6", "18.08.1", "built with Slurm 16.05, and 18.08 cannot"),
    ],
)
def test_releases_that_do_not(before: str, now: str, names: str) -> None:
    with pytest.raises(WrongUse, match=f"^slurm_source: cluster mirage was {names} read") as error:
        change(before, now)
    assert "make teardown CLUSTER=mirage" in str(error.value) and "\n" not in str(error.value)


def test_what_is_not_known_is_not_judged() -> None:
    change("", "25.11.7")
    change("22.05.8", "")
    release_change.check("", "25.11.7", "mirage")


@given(st.integers(16, 40), st.sampled_from([2, 5, 8, 11]), st.integers(16, 40), st.sampled_from([2, 5, 8, 11]))
def test_there_is_no_way_back(year: int, month: int, other_year: int, other_month: int) -> None:
    earlier, later = sorted([(year, month), (other_year, other_month)])
    if earlier < (16, 5) or earlier == later:
        return
    names = [f"{release[0]}.{release[1]:02}.1" for release in (earlier, later)]
    assert release_change._rank(earlier) <= release_change._rank(later)
    if release_change._rank(earlier) < release_change._rank(later):
        with pytest.raises(WrongUse):
            change(names[1], names[0])


def test_the_module_asks_the_slurm_that_is_there_or_takes_what_would_be_built(call: Caller, tmp_path: Path) -> None:
    (tmp_path / "etc/nodes").mkdir(parents=True)
    config = {
        "directory": str(tmp_path),
        "settings": {"ClusterName": "mirage"},
        "nodes": [{"count": 2, "cpus": 4}],
        "port": 17000,
        "ports": 3,
        "partitions": [{"name": "batch"}],
    }
    call("slurm_config", **config, version="25.11.7")
    params = {"directory": str(tmp_path), "bin": str(tmp_path), "front_ends": 0}
    assert call("slurm_release_info", **params)["release"] == ""
    assert call("slurm_release_info", **params, version="26.05.1")["release"] == "26.05.1"
    assert "built with Slurm 25.11" in call("slurm_release_info", **params, version="24.11.5")["msg"]

    scontrol = tmp_path / "scontrol"
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    assert "25.11, and 22.05 cannot read" in call("slurm_release_info", **params)["msg"]
    scontrol.write_text("#!/bin/sh\necho no library >&2; exit 127\n")
    assert call("slurm_release_info", **params)["msg"] == f"wrong use: {scontrol} does not tell its release: no library"

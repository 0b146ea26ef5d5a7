"""Words of NodeName lines with consequences: processors, GRES, gres.conf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_mirage.base.errors import WrongUse
from slurm_mirage.rm.slurm.node_options import MOST_GPUS, Words, arrangement, gpus, gres_lines, gres_of, gres_types, word, words_of

DEVICES = Path("/i/etc/devices")


def test_words_are_as_slurm_conf_has_them() -> None:
    words = words_of({"RealMemory": 64000, "Feature": ["a", "b"], "State": "omit"}, "here")
    assert words == (("RealMemory", "64000"), ("Feature", "a,b"))
    assert (word(words, "feature"), word(words, "Gres"), word(words, "Weight", "1")) == ("a,b", "", "1")


@pytest.mark.parametrize(
    "extra", [{"A b": 1}, {"Feature": "a b"}, {"Feature": "a\nb"}, {"Feature": None}, {"Feature": ""}, {1: 2}, {"": 3}]
)
def test_what_would_be_other_words_is_refused(extra: dict[Any, Any]) -> None:
    with pytest.raises(WrongUse, match=r"^here: extra: .* is not (a word of a NodeName line|the name of a setting)"):
        words_of(extra, "here")


@pytest.mark.parametrize("key", ["CPUs", "procs", "Port", "NodeAddr", "NodeHostname", "NodeName"])
def test_what_is_said_otherwise_is_refused(key: str) -> None:
    with pytest.raises(WrongUse, match=f"^here: extra: {key} may not be given"):
        words_of({key: 1}, "here")


@pytest.mark.parametrize(
    ("cpus", "words", "expected"),
    [
        (16, {}, (16, 1, 1)),
        (16, {"CoresPerSocket": 8}, (2, 8, 1)),
        (16, {"Sockets": 2, "CoresPerSocket": 4, "ThreadsPerCore": 2}, (2, 4, 2)),
        (8, {"Sockets": 2, "CoresPerSocket": 4, "ThreadsPerCore": 2}, (2, 4, 2)),
        (16, {"SocketsPerBoard": 2, "CoresPerSocket": 4, "Boards": 2}, (4, 4, 1)),
        (16, {"threadspercore": 2}, (8, 1, 2)),
    ],
)
def test_processors_are_arranged_as_slurm_does(cpus: int, words: dict[str, int], expected: tuple[int, int, int]) -> None:
    """Compared with `scontrol show nodes` of Slurm 22.05.8."""
    assert arrangement(cpus, words_of(words, "here")) == expected


@pytest.mark.parametrize(
    "words", [{"Sockets": 3}, {"Sockets": 2, "CoresPerSocket": 16}, {"CoresPerSocket": "x"}, {"ThreadsPerCore": 0}]
)
def test_another_number_of_processors_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match=r"^here: "):
        arrangement(16, words_of(words, "here"), "here")


def gres(text: str) -> Words:
    return (("Gres", text),)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("gpu:4", ["Name=gpu File=/i/etc/devices/gpu[0-3]"]),
        ("gpu", ["Name=gpu File=/i/etc/devices/gpu0"]),
        ("gpu:v100:1", ["Name=gpu Type=v100 File=/i/etc/devices/gpu0"]),
        (
            "gpu:v100:2,gpu:a100:2,fpga:1",
            [
                "Name=gpu Type=v100 File=/i/etc/devices/gpu[0-1]",
                "Name=gpu Type=a100 File=/i/etc/devices/gpu[2-3]",
                "Name=fpga Count=1",
            ],
        ),
        ("burst:10K", ["Name=burst Count=10K"]),
    ],
)
def test_gres_conf(text: str, lines: list[str]) -> None:
    assert gres_lines("n[1-8]", gres(text), DEVICES).splitlines() == [f"NodeName=n[1-8] {line}" for line in lines]


@pytest.mark.parametrize(
    "text",
    ["gpu:", "gpu:0", "gpu:v100:x", "gpu:v100:2:3", "4", "gpu:2,gpu:2", "gpu:2,gpu:v100:2", "gpu:v100:2,gpu:v100:1", "gpu:1K",
     "mps:100", "shard:8", f"gpu:{MOST_GPUS + 1}", f"gpu:a:{MOST_GPUS},gpu:b:1", "gpu:4,", ",", "gpu:4 fpga:1"],
)  # fmt: skip
def test_gres_that_slurmd_would_not_start_with(text: str) -> None:
    with pytest.raises(WrongUse, match=r"^here: extra: Gres "):
        gres_of(gres(text), "here")


def test_types_of_gres_follow_from_the_nodes() -> None:
    assert gres_types([gres("gpu:a:1,fpga:2"), (), gres("gpu:b:4"), gres("nic:1")]) == "gpu,fpga,nic"
    assert gres_types([(), (("Feature", "x"),)]) == ""


@given(st.lists(st.integers(1, 20), min_size=1, max_size=3))
def test_each_gpu_has_a_device_of_its_own(counts: list[int]) -> None:
    words = gres(",".join(f"gpu:t{i}:{count}" for i, count in enumerate(counts)))
    assert gpus(gres_of(words)) == sum(counts)
    ranges = [line.rpartition("gpu")[2].strip("[]").split("-") for line in gres_lines("n1", words, DEVICES).splitlines()]
    numbers = [number for first, *last in ranges for number in range(int(first), int((last or [first])[0]) + 1)]
    assert numbers == list(range(sum(counts)))

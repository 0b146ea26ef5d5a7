"""Compares site_conf with Slurm's own parser on random slurm.conf files: acceptance, and the nodes that both read."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.site import site_conf
from slurm_mirage.base.errors import WrongUse
from slurm_mirage.base.hostlist import expand

FILES = 200
SLURM = next(iter(sorted(Path("/usr/lib").glob("*/slurm*/libslurmfull.so"))), None)
"""The library that has the parser of all of Slurm's programs."""
SLURMCTLD = shutil.which("slurmctld", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
VERSION = subprocess.run([SLURMCTLD, "-V"], capture_output=True, text=True, check=False).stdout if SLURMCTLD else ""
pytestmark = pytest.mark.skipif(" 22.05" not in VERSION, reason="Slurm 22.05 is not installed")

# Reads a slurm.conf with the library and prints each node: name, CPUs, memory, features (struct slurm_conf_node).
# RTLD_DEEPBIND: the library's error() is not that of libc, which the interpreter has.
NODES = """
import ctypes, json, os, sys
slurm = ctypes.CDLL(sys.argv[1], os.RTLD_DEEPBIND)
TEXT, SHORT = ctypes.c_char_p, ctypes.c_uint16
slurm.hostlist_create.argtypes, slurm.hostlist_create.restype = [TEXT], ctypes.c_void_p
slurm.hostlist_shift.argtypes, slurm.hostlist_shift.restype = [ctypes.c_void_p], TEXT
def expand(names):
    listed = slurm.hostlist_create(names)
    while (name := slurm.hostlist_shift(listed)) is not None:
        yield name.decode()
class Node(ctypes.Structure):
    _fields_ = [("names", TEXT), ("host", TEXT), ("address", TEXT), ("bcast", TEXT), ("gres", TEXT), ("feature", TEXT),
        ("port", TEXT), ("bind", ctypes.c_uint32), ("cpus", SHORT), ("spec", TEXT), ("boards", SHORT),
        ("sockets", SHORT), ("cores", SHORT),
        ("core_spec", SHORT), ("threads", SHORT), ("memory", ctypes.c_uint64)]
slurm.slurm_conf_init(sys.argv[2].encode())
lines = ctypes.POINTER(ctypes.POINTER(Node))()
count = slurm.slurm_conf_nodename_array(ctypes.byref(lines))
nodes = [lines[number].contents for number in range(count)]
print(json.dumps({name: [node.cpus, node.memory, (node.feature or b"").decode()] for node in nodes for name in expand(node.names)}))
"""
SETTINGS = ("SchedulerParameters", "AuthInfo", "LaunchParameters", "MailProg", "PriorityWeightAge", "AccountingStorageTRES")
VALUES = (
    "1", "a,b", '"a,b"', '"a, b"', '"a","b"', '"a"b', 'a"b"', r"a\#b", r"a\\b", r'\"a\"', "a=b,c=d", '""', "0x10", "a=1#not",
    '"a # b"', '"a', "", "a b", "a\\\nb", "a \\\n", "a\\\\\nb", "a\vb", "a\r", "a\\ \nb", "\u00e4\u00a0b",
    "a;b", "\\", "'a b'", '"a\tb"',
)  # fmt: skip
COUNTS = ("CPUs", "Procs", "Sockets", "CoresPerSocket", "ThreadsPerCore", "Boards", "SocketsPerBoard")
NUMBERS = ("1", "2", "4", "8", "010", "0x8", '"16"', "+4", "0", '""', '" 6"', "3")


def _case(word: str, chance: random.Random) -> str:
    return chance.choice((word, word, word.lower(), word.upper()))


def _node_words(chance: random.Random) -> str:
    words = []
    for _ in range(chance.randint(0, 5)):
        key = chance.choice((*COUNTS, *COUNTS, "RealMemory", "Feature", "Features", "Reason"))
        value = chance.choice(NUMBERS if key in COUNTS else VALUES if key in ("Reason", "Feature", "Features") else ("64K", "512"))
        sign = chance.choice(("=", "=", "=", " = ", "= ", " =", "+=", " \\\n ="))
        words.append(f"{_case(key, chance)}{sign}{value}")
    return chance.choice((" ", "  ", "\t", " \\\n", "\\\n  ")).join(["", *words])


def _names(number: int, chance: random.Random) -> str:
    base = f"n{number}x"
    forms = ("{}1", "{}[1-3]", "{}[01-03,7]", '"{}1,{}2"', '"{}1 {}2"', "{}1,,{}2", '"{}[1-2]-ib[3,5]"', "{}[08-11]", "{}1,")
    return chance.choice(forms).replace("{}", base)


def _line(number: int, chance: random.Random) -> str:
    kind = chance.randrange(8)
    if kind < 3:
        indent = chance.choice(("", "", " ", "\t"))
        setting = _case(chance.choice(SETTINGS), chance)
        value = chance.choice(NUMBERS) if setting.lower() == "priorityweightage" else chance.choice(VALUES)
        return (
            indent + setting + chance.choice(("=", " = ", "=  ", "-=")) + value + chance.choice(("", " ", " # note", "#x", " \\"))
        )
    if kind == 3:
        return f"{_case('NodeName', chance)}=DEFAULT{_node_words(chance)}"
    if kind < 6:
        return f"{_case('NodeName', chance)}={_names(number, chance)}{_node_words(chance)}"
    if kind == 6:
        return chance.choice(("", "   ", "# note \\", "#", "\\", "\t# NodeName=x", "\r", f"NodeSet=s{number} Nodes=f1 Feature=a"))
    return chance.choice(
        ("Include part.conf", "include\tparts/sub/part.conf ", "INCLUDE parts/%c.conf", "PartitionName", "includes")
    )


def _write(folder: Path, seed: int) -> Path:
    """A slurm.conf of up to thirteen lines, and three files that it may include."""
    chance = random.Random(seed)
    (folder / "parts/sub").mkdir(parents=True)
    for place in ("part.conf", "parts/sub/part.conf", "parts/wombat.conf"):
        (folder / place).write_text("LaunchParameters=x\\")
    head = [
        "ClusterName=WomBat",
        "SlurmctldHost=localhost",
        "SlurmctldPort=1",
        "NodeName=f1",
        "PartitionName=p Nodes=f1 Default=YES",
    ]
    lines = [_line(number, chance) for number in range(chance.randint(1, 8))]
    (folder / "slurm.conf").write_text(
        "\n".join([*head, *lines]) + chance.choice(("\n", "\nTreeWidth=5", "\nMailDomain=a\\")), newline=""
    )
    return folder / "slurm.conf"


def _slurm_reads(path: Path) -> bool | None:
    """Return True if scontrol accepts the file, False if it refuses it, None if it does not know a key in it.

    After it has read a file, scontrol reports that slurmctld does not answer. Other programs of Slurm may know that key.
    """
    result = subprocess.run(
        ["scontrol", "ping"], env={"SLURM_CONF": str(path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )
    return None if "unrecognized key" in result.stderr else "Slurmctld(primary)" in result.stdout


def _slurm_nodes(path: Path) -> dict[str, tuple[int, int, str]]:
    """Processors, memory and features of each node by Slurm's parser."""
    command = [sys.executable, "-c", NODES, str(SLURM), str(path)]
    nodes = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {name: (cpus, memory, re.sub(r"\s", "", feature)) for name, (cpus, memory, feature) in nodes.items()}


def _our_nodes(site: site_conf.SiteConf) -> dict[str, tuple[int, int, str]]:
    old = {new: name for name, new in site.renamed.items()}
    nodes: dict[str, tuple[int, int, str]] = {}
    for some in site.nodes:
        words = {key.lower(): value for key, value in some.extra}
        feature = words.get("feature") or words.get("features") or ""
        nodes |= {old.get(name, name): (some.cpus, int(words.get("realmemory", 1)), feature) for name in expand(some.names)}
    return nodes


def test_what_slurm_reads_we_read_with_the_same_nodes(tmp_path: Path) -> None:
    read = 0
    for seed in range(FILES):
        path = _write(tmp_path / str(seed), seed)
        reads = _slurm_reads(path)
        if reads is None:
            continue
        if reads:
            read += 1
            assert _our_nodes(site_conf.read(path)) == _slurm_nodes(path), f"seed {seed}"
        else:
            with pytest.raises(WrongUse):
                site_conf.read(path)
    assert FILES / 4 < read < FILES - FILES / 10, "files that Slurm reads, and files that it refuses"

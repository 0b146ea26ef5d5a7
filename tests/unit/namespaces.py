"""Three hosts as network namespaces of this machine: one with ports that can be reached, and two that are linked to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PATIENCE = 60  # seconds until a test is given up

LISTENER = """
import select, socket, sys
sockets = {}
for port in map(int, sys.argv[1:]):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        one = socket.socket(socket.AF_INET, kind)
        one.bind(("", port))
        if kind == socket.SOCK_STREAM:
            one.listen()
        sockets[one] = kind
print("ready", flush=True)
while True:
    for one in select.select(sockets, [], [])[0]:
        if sockets[one] == socket.SOCK_STREAM:
            one.accept()[0].close()
        else:
            one.sendto(*one.recvfrom(100))
"""
ASKER = """
import json, socket, sys
address, found = sys.argv[1], {}
for port in map(int, sys.argv[2:]):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for name, one in (("tcp", tcp), ("udp", udp)):
            one.settimeout(30)
            try:
                one.connect((address, port))
                if name == "udp":
                    one.send(b"question")
                    one.recv(100)
                found[f"{port}/{name}"] = True
            except OSError:
                found[f"{port}/{name}"] = False
print(json.dumps(found))
"""


@dataclass
class Host:
    """A network namespace with a program that listens at 17000, 17001 and 22, and two others that are linked to it."""

    name: str

    def program(self, path: Path, *command: str) -> Path:
        """A program at `path` that runs `command` in it, with further words."""
        path.write_text(f'#!/bin/sh\nexec ip netns exec {self.name} {" ".join(command)} "$@"\n')
        path.chmod(0o755)
        return path

    def reached_by(self, other: str, *ports: int) -> set[str]:
        """What of it is reached from the namespace `other`."""
        address = {"friend": "10.77.1.1", "stranger": "10.77.2.1"}[other]
        command = ["ip", "netns", "exec", f"{self.name}-{other}", sys.executable, "-c", ASKER, address, *map(str, ports)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE * 3).stdout)
        return {port for port, is_reached in found.items() if is_reached}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def linked(program: str) -> Iterator[Host]:
    """The host, for as long as it is needed; skips the test where there can be none, or nothing to filter packets with."""
    if os.getuid() != 0 or not shutil.which("ip") or not Path(program).exists():
        pytest.skip(f"skipped: needs root, ip and {program}")
    name = f"mirage-test-{os.getpid()}"
    spaces = [name, f"{name}-friend", f"{name}-stranger"]
    try:
        for space in spaces:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        for number, space in enumerate(spaces[1:], start=1):
            here, there = f"mt{os.getpid()}h{number}", f"mt{os.getpid()}o{number}"
            ip("link", "add", here, "netns", name, "type", "veth", "peer", "name", there, "netns", space)
            for where, link, last in ((name, here, 1), (space, there, 2)):
                ip("-n", where, "address", "add", f"10.77.{number}.{last}/24", "dev", link)
                ip("-n", where, "link", "set", link, "up")
        # Who asks often would be left without an answer, and wait for it.
        subprocess.run(["ip", "netns", "exec", name, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit"], check=True)
        command = ["ip", "netns", "exec", name, sys.executable, "-c", LISTENER, "17000", "17001", "22"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as listener:
            assert listener.stdout is not None
            listener.stdout.readline()
            try:
                yield Host(name)
            finally:
                listener.kill()
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], check=False)

"""Command line of the test bed."""

from __future__ import annotations

import argparse
import os
import sys

from . import beds, machines, trees
from .commands import BedError, say
from .layout import HOSTS, check_name


def run(arguments: list[str]) -> int:
    """Run the command. Returns 0, or 1 after printing a one-line error."""
    given = _parser().parse_args(arguments)
    try:
        if os.geteuid() != 0:
            raise BedError("wrong use: a test bed needs root")
        _do(given)
    except BedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="testbed", description="Manages hosts for tests on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (
        ("tree", "create the file tree of a release, if it does not exist"),
        ("up", "create a bed, or add hosts to it, and boot its hosts"),
        ("down", "remove a bed, also an incomplete one"),
        ("reboot", "shut a host down and boot it"),
        ("kill", "kill a host, as by a power failure"),
        ("boot", "boot a host that was killed"),
        ("leftovers", "fail if anything of a removed bed is left on this machine"),
    ):
        command = commands.add_parser(name, help=does)
        if name in ("tree", "up"):
            command.add_argument("--release", default="bookworm", help="release of Debian (%(default)s)")
        if name not in ("tree", "leftovers"):
            command.add_argument("bed", help="the bed's name")
        if name == "up":
            command.add_argument("--hosts", default="", help=f"the head first ({','.join(HOSTS)}), or hosts to add to a bed")
        if name in ("reboot", "kill", "boot"):
            command.add_argument("host", help="the host's name")
    return parser


def _do(given: argparse.Namespace) -> None:
    if given.command == "tree":
        trees.tree(trees.Recipe(given.release))
    elif given.command == "up":
        names = [check_name(name, "host") for name in given.hosts.split(",") if name]
        beds.up(check_name(given.bed, "bed"), given.release, names)
    elif given.command == "down":
        beds.down(check_name(given.bed, "bed"))
    elif given.command == "leftovers":
        found = beds.leftovers()
        if found:
            raise BedError("left behind: " + ", ".join(found))
    else:
        _do_to_host(given)


def _do_to_host(given: argparse.Namespace) -> None:
    bed = beds.get(given.bed)
    host = bed.host(given.host)
    if given.command in ("reboot", "kill"):
        machines.stop([host], machines.SHUTDOWN if given.command == "reboot" else 0)
        say(f"{host.name}: down")
    if given.command in ("reboot", "boot"):
        beds.boot(bed, host)
        say(f"{host.name}: up")

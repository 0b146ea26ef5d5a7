"""A bed's own network: a bridge, whose address the hosts know as their gateway, and a way out through this machine's address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_mirage.farm.host_settings import HostSettings

from .layout import Bed, settings
from .words import BedError, run

_FORWARDING = "net.ipv4.ip_forward"


def _rules(bed: Bed) -> str:
    """The bed's table: what leaves goes out under this machine's address, in packets that fit its interface."""
    return f"""
        table ip {bed.table} {{
            chain out {{
                type nat hook postrouting priority srcnat
                ip saddr {bed.network}.0/24 oifname != "{bed.bridge}" masquerade
            }}
            chain through {{
                type filter hook forward priority mangle
                iifname "{bed.bridge}" tcp flags syn tcp option maxseg size set rt mtu
            }}
        }}
        """


def make(bed: Bed) -> None:
    """The bridge, its address and the way out, as far as they are missing."""
    if not Path("/sys/class/net", bed.bridge).exists():
        run("ip", "link", "add", bed.bridge, "type", "bridge")
    run("ip", "address", "replace", f"{bed.network}.1/24", "dev", bed.bridge)
    run("ip", "link", "set", bed.bridge, "up")
    # Whatever came before, there is then exactly this table.
    run("nft", "--file", "-", given=f"table ip {bed.table}\ndelete table ip {bed.table}\n{_rules(bed)}")
    refused = HostSettings(settings()).claim(bed.name, {_FORWARDING: 1})["refused"]
    if refused:
        raise BedError(f"this machine does not let its hosts out: {_FORWARDING}: {refused[_FORWARDING]}")


def remove(bed: Bed) -> None:
    """Undo `make`, or what there is of it; the machine forwards packets afterwards only if it did before the first bed."""
    HostSettings(settings()).release(bed.name)
    if bed.table in tables():
        run("nft", "delete", "table", "ip", bed.table)
    for name in interfaces(bed):
        # The other end of a pair may have gone, and taken this one with it, since the list was read.
        if Path("/sys/class/net", name).exists():
            run("ip", "link", "delete", name)


def interfaces(bed: Bed) -> list[str]:
    """Interfaces of the bed that there are: those of its hosts, then the bridge."""
    found = [path.name for path in Path("/sys/class/net").iterdir()]
    return sorted(name for name in found if name.startswith(f"vb-{bed.bridge}-")) + [bed.bridge] * (bed.bridge in found)


def tables() -> list[str]:
    """Names of this machine's tables for IPv4."""
    listing: dict[str, Any] = json.loads(run("nft", "--json", "list", "tables", "ip"))
    return [entry["table"]["name"] for entry in listing["nftables"] if "table" in entry]

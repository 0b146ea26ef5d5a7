"""Creates and removes a bed's network: a bridge, whose address is the hosts' gateway, and NAT to this machine's networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_mirage.farm.host_settings import HostSettings

from .commands import BedError, run
from .layout import Bed, settings

_FORWARDING = "net.ipv4.ip_forward"


def _rules(bed: Bed) -> str:
    """Return the bed's nftables table: NAT of outgoing packets, and a maximum segment size that fits the interface."""
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
    """Create the bridge, its address and the NAT rules as far as they are missing. Raises BedError if forwarding is refused."""
    if not Path("/sys/class/net", bed.bridge).exists():
        run("ip", "link", "add", bed.bridge, "type", "bridge")
    run("ip", "address", "replace", f"{bed.network}.1/24", "dev", bed.bridge)
    run("ip", "link", "set", bed.bridge, "up")
    # Replaces an existing table.
    run("nft", "--file", "-", given=f"table ip {bed.table}\ndelete table ip {bed.table}\n{_rules(bed)}")
    refused = HostSettings(settings()).claim(bed.name, {_FORWARDING: 1})["refused"]
    if refused:
        raise BedError(f"this machine does not forward the hosts' packets: {_FORWARDING}: {refused[_FORWARDING]}")


def remove(bed: Bed) -> None:
    """Undo `make`, also if it was interrupted. Packet forwarding is restored after the last bed."""
    HostSettings(settings()).release(bed.name)
    if bed.table in tables():
        run("nft", "delete", "table", "ip", bed.table)
    for name in interfaces(bed):
        # An interface vanishes with the other end of its pair, which may have been removed meanwhile.
        if Path("/sys/class/net", name).exists():
            run("ip", "link", "delete", name)


def interfaces(bed: Bed) -> list[str]:
    """Return the existing interfaces of the bed: those of its hosts, then the bridge."""
    found = [path.name for path in Path("/sys/class/net").iterdir()]
    return sorted(name for name in found if name.startswith(f"vb-{bed.bridge}-")) + [bed.bridge] * (bed.bridge in found)


def tables() -> list[str]:
    """Return the names of this machine's nftables tables for IPv4."""
    listing: dict[str, Any] = json.loads(run("nft", "--json", "list", "tables", "ip"))
    return [entry["table"]["name"] for entry in listing["nftables"] if "table" in entry]

"""Creates, changes and removes test beds."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress

from slurm_mirage.base.files import locked_folder, write_atomically

from . import layout, machines, network, trees
from .commands import BedError, run, say
from .layout import Bed, Host

# Ignores the user's SSH configuration, agent and known hosts. The shared connections end with the bed.
_SSH = (
    "-F none -o IdentitiesOnly=yes -o UserKnownHostsFile={folder}/known_hosts "
    "-o ControlMaster=auto -o ControlPersist=60s -o ControlPath={folder}/ssh-%C "
    # Detects hosts that are down.
    "-o ServerAliveInterval=5 -o ServerAliveCountMax=3"
)


def up(name: str, release: str, names: Sequence[str]) -> Bed:
    """Create the bed, or add missing hosts to it, and boot the hosts that do not run."""
    tree = trees.tree(trees.Recipe(release))
    with locked_folder(layout.root()):
        bed = layout.load(name) or layout.new(name, release, [])
        if bed.release != release:
            raise BedError(f"bed {name} already exists with {bed.release}; remove it first (down {name})")
        asked = names or bed.names or layout.HOSTS
        bed.names += [host for host in asked if host not in bed.names]
        bed.save()
    _keys(bed)
    network.make(bed)
    machines.prepare_folder(bed)
    _write_inventory(bed)
    down_hosts = [host for host in bed.hosts if not machines.runs(host)]
    for host in down_hosts:
        machines.prepare(host, tree, bed.key.with_suffix(".pub").read_text())
        machines.start(host)
    say(f"bed {name}: {len(down_hosts)} hosts boot")
    for host in down_hosts:
        machines.wait_for_ssh(host)
    say(f"bed {name}: {', '.join(f'{host.name} {host.address}' for host in bed.hosts)}; inventory {bed.inventory}")
    return bed


def _keys(bed: Bed) -> None:
    for path in (bed.key, bed.folder / "host_key"):
        if not path.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"bed {bed.name}", "-f", str(path))


def _write_inventory(bed: Bed) -> None:
    public = " ".join((bed.folder / "host_key.pub").read_text().split()[:2])
    write_atomically(bed.folder / "known_hosts", "".join(f"{host.address} {public}\n" for host in bed.hosts))
    bed.inventory.mkdir(exist_ok=True)
    head, *compute = [f"{host.name} ansible_host={host.address}" for host in bed.hosts]
    options = {
        "ansible_user": trees.ACCOUNT,
        "ansible_become": "true",
        "ansible_ssh_private_key_file": bed.key,
        "ansible_ssh_common_args": f'"{_SSH.format(folder=bed.folder)}"',
        # Replaces Ansible's default options, which use compression.
        "ansible_ssh_args": "-oBatchMode=yes",
        "ansible_python_interpreter": "/usr/bin/python3",
    }
    lines = ["[head]", head, "", "[compute]", *compute, "", "[all:vars]", *(f"{key}={value}" for key, value in options.items())]
    write_atomically(bed.inventory / "hosts", "\n".join(lines) + "\n")


def get(name: str) -> Bed:
    bed = layout.load(name)
    if bed is None:
        raise BedError(f"bed {name} does not exist")
    return bed


def boot(bed: Bed, host: Host) -> None:
    """Start a host that was shut down or killed. Its files are unchanged."""
    if not machines.runs(host):
        machines.stop([host], 0)
        machines.start(host)
    machines.wait_for_ssh(host)


def down(name: str) -> None:
    """Remove the bed, also an incomplete one, from this machine. The file tree stays. A missing bed is not an error."""
    with locked_folder(layout.root()):
        bed = layout.load(name)
        if bed is not None:
            _close_connections(bed)
            machines.stop(bed.hosts)
            network.remove(bed)
            machines.remove_files(bed)
        folder = layout.root() / name
        if folder.exists():
            shutil.rmtree(folder)
        _remove_empty_folders()
    say(f"bed {name}: removed")


def _remove_empty_folders() -> None:
    """Remove the folders of all beds if they are empty."""
    for place in (layout.settings().parent, layout.root()):
        with suppress(OSError):
            place.rmdir()


def _close_connections(bed: Bed) -> None:
    """Close the SSH connections that Ansible keeps open."""
    for path in bed.folder.glob("ssh-*"):
        with suppress(BedError):
            run("ssh", "-F", "none", "-o", f"ControlPath={path}", "-O", "exit", "bed")


def leftovers() -> list[str]:
    """Return descriptions of everything on this machine that belongs to removed beds."""
    # The lock excludes a bed that is being removed at the moment.
    with locked_folder(layout.root()):
        found = _find_leftovers()
        _remove_empty_folders()
    return found


def _find_leftovers() -> list[str]:
    beds = layout.all_beds()
    existing = {bed.number for bed in beds}
    gone = [Bed("", number, "", [], {}) for number in range(1, layout.NUMBERS + 1) if number not in existing]
    tables, bridges, folders = network.tables(), {bed.bridge for bed in gone}, [bed.folder for bed in beds]
    found = [f"interface {name}" for bed in gone for name in network.interfaces(bed)]
    found += [f"nftables table {bed.table}" for bed in gone if bed.table in tables]
    places = [*machines.group_folders(), *machines.KEPT]
    found += [f"folder {path}" for place in places if place.exists() for path in place.iterdir() if path.name[:4] in bridges]
    found += [f"folder {path}" for path in layout.root().glob("[a-z]*/") if path not in folders]
    used = [(f"mount {point}", point) for point in machines.mount_points()]
    used += [(f"process {pid}", tree) for pid, tree in machines.supervisors()]
    return found + [what for what, path in used if layout.root() in path.parents and not set(folders) & set(path.parents)]

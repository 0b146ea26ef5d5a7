"""Kernel settings of a host, counted per instance, so that the last instance to leave restores what it found.

A setting is a file below /proc/sys or /sys with a number in it. Each instance claims the least value that it needs; the
host gets the largest of all claims and of what it had. A setting is never lowered: what somebody else has raised above all
claims in between is the host's own from then on. The register is one file:

    {"boot_id": ..., "settings": {PATH: {"original": n, "claims": {INSTANCE: n}}}}

It belongs to one boot: after a reboot the kernel's values are the originals again. It is written before the kernel's values
are, so that a kill -9 in between leaves no value without its original.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from ..base.files import locked_folder, read_json, write_json

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def path_of(name: str) -> Path:
    """File of a setting: a sysctl's dotted name (sysctl(8)) or an absolute path below /sys."""
    return Path(name) if name.startswith("/") else Path("/proc/sys", *name.split("."))


def _reason(error: OSError | ValueError) -> str:
    """Why, without the path: that is the name again, and equal reasons are to be equal."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


class HostSettings:
    """The register of one host; `register` is its file, in a folder that all instances share."""

    def __init__(self, register: Path) -> None:
        self.register = register

    def claim(self, instance: str, wanted: Mapping[str, int], write: bool = True) -> dict[str, Any]:
        """Let `instance` claim `wanted` (setting -> least value). A claim replaces the instance's earlier one.

        Returns {"changed": [names set on the host], "refused": {name: reason}, "noted": whether the register changed}.
        A host that refuses a setting (a container, a kernel without it) is reported, not an error. With `write` false
        nothing is changed.
        """
        # Without a register there is nothing to give back, and no folder to be made.
        with self._locked(write and (bool(wanted) or self.register.exists())) as settings:
            before = deepcopy(settings)
            refused: dict[str, str] = {}
            for name, value in wanted.items():
                current = self._read(name, refused)
                if current is not None:
                    claims = settings.setdefault(name, {"original": current, "claims": {}})["claims"]
                    claims[instance] = max(value, claims.get(instance, value))
            self._respect_others(settings)
            if write and settings != before:
                self._save(settings)
            for name in [n for n, s in settings.items() if instance in s["claims"]]:
                if name in wanted:
                    settings[name]["claims"][instance] = wanted[name]
                else:
                    del settings[name]["claims"][instance]
            changed = self._apply(settings, refused, write)
            for name in refused.keys() & settings.keys():
                # What was never set is not to be set back: by then it may be somebody else's.
                settings[name]["claims"].pop(instance, None)
                if not settings[name]["claims"]:
                    del settings[name]
            return {"changed": changed, "refused": refused, "noted": settings != before}

    def release(self, instance: str, write: bool = True) -> dict[str, Any]:
        """Take back all claims of `instance`; settings that nobody claims any more get their original value."""
        return self.claim(instance, {}, write)

    def renew(self) -> None:
        """Give the host what is claimed: after a reboot the kernel has forgotten it."""
        with self._locked(self.register.exists()) as settings:
            self._respect_others(settings)
            self._apply(settings, {}, True)

    def _respect_others(self, settings: dict[str, Any]) -> None:
        """Take a value above all claims for somebody else's, and so for the host's own."""
        for name, entry in settings.items():
            current = self._read(name, {})
            if current is not None and current > max([entry["original"], *entry["claims"].values()]):
                entry["original"] = current

    def _apply(self, settings: dict[str, Any], refused: dict[str, str], write: bool) -> list[str]:
        changed = []
        for name in sorted(settings):
            entry = settings[name]
            target = max([entry["original"], *entry["claims"].values()])
            if self._read(name, refused) not in (None, target) and (not write or self._write(name, target, refused)):
                changed.append(name)
            if not entry["claims"]:
                del settings[name]
        return changed

    @staticmethod
    def _read(name: str, refused: dict[str, str]) -> int | None:
        try:
            return int(path_of(name).read_text())
        except (OSError, ValueError) as error:
            refused[name] = _reason(error)
            return None

    @staticmethod
    def _write(name: str, value: int, refused: dict[str, str]) -> bool:
        try:
            path_of(name).write_text(f"{value}\n")
        except OSError as error:
            refused[name] = _reason(error)
            return False
        return True

    @contextmanager
    def _locked(self, write: bool) -> Iterator[dict[str, Any]]:
        if not write:
            yield self._load()
            return
        with locked_folder(self.register.parent):
            settings = self._load()
            yield settings
            self._save(settings)

    def _save(self, settings: dict[str, Any]) -> None:
        if settings:
            write_json(self.register, {"boot_id": BOOT_ID.read_text().strip(), "settings": settings})
        else:
            self.register.unlink(missing_ok=True)

    def _load(self) -> dict[str, Any]:
        content = read_json(self.register) or {}
        settings: dict[str, Any] = content.get("settings", {})
        if content.get("boot_id") != BOOT_ID.read_text().strip():
            for name, entry in settings.items():
                current = self._read(name, {})
                entry["original"] = entry["original"] if current is None else current
        return settings

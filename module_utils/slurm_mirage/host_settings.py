"""Kernel settings of a host, counted per instance, so that the last instance to leave restores what it found.

A setting is a file below /proc/sys or /sys with a number in it. Each instance claims the least value that it needs; the
host gets the largest of all claims and of what it had (a setting is never lowered). The register is one file:

    {"boot_id": ..., "settings": {PATH: {"original": n, "claims": {INSTANCE: n}}}}

It belongs to one boot: after a reboot the kernel's values are the originals again.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .files import read_json, write_json

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
        with self._locked(write) as settings:
            before = repr(settings)
            refused: dict[str, str] = {}
            for name in [n for n, s in settings.items() if instance in s["claims"] and n not in wanted]:
                del settings[name]["claims"][instance]
            for name, value in wanted.items():
                current = self._read(name, refused)
                if current is None:
                    continue
                entry = settings.setdefault(name, {"original": current, "claims": {}})
                entry["claims"][instance] = value
            changed = self._apply(settings, refused, write)
            for name in refused.keys() & settings.keys():
                # What was never set is not to be set back: by then it may be somebody else's.
                settings[name]["claims"].pop(instance, None)
                if not settings[name]["claims"]:
                    del settings[name]
            return {"changed": changed, "refused": refused, "noted": repr(settings) != before}

    def release(self, instance: str, write: bool = True) -> dict[str, Any]:
        """Take back all claims of `instance`; settings that nobody claims any more get their original value."""
        return self.claim(instance, {}, write)

    def renew(self, instance: str) -> dict[str, Any]:
        """Claim again what `instance` has claimed before: after a reboot the kernel has forgotten it."""
        settings = (read_json(self.register) or {}).get("settings", {})
        return self.claim(instance, {n: s["claims"][instance] for n, s in settings.items() if instance in s["claims"]})

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
        boot_id = BOOT_ID.read_text().strip()
        if not write:
            yield self._load(boot_id)
            return
        self.register.parent.mkdir(parents=True, exist_ok=True)
        with self.register.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            settings = self._load(boot_id)
            yield settings
            if settings:
                write_json(self.register, {"boot_id": boot_id, "settings": settings})
            else:
                self.register.unlink(missing_ok=True)

    def _load(self, boot_id: str) -> dict[str, Any]:
        content = read_json(self.register) or {}
        settings: dict[str, Any] = content.get("settings", {})
        if content.get("boot_id") != boot_id:
            for name, entry in settings.items():
                current = self._read(name, {})
                entry["original"] = entry["original"] if current is None else current
        return settings

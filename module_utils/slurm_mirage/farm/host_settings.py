"""Kernel settings of a host, shared by its instances. The last instance to release a setting restores its original value.

A setting is a file below /proc/sys or /sys that contains a number. Each instance claims the least value that it needs; the setting
gets the maximum of all claims and its original value. A setting is never lowered below a value that was set by others: a value
above all claims becomes the new original value. The claims are kept in a register, one JSON file:

    {"boot_id": ..., "settings": {NAME: {"original": n, "claims": {INSTANCE: n}}}}

After a reboot (another boot_id) the kernel's values are the original ones. The register is written before the settings are changed,
so that a kill -9 in between does not lose an original value.
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
    """Return the file of a setting. Its name is a dotted sysctl name (sysctl(8)) or an absolute path below /sys."""
    return Path(name) if name.startswith("/") else Path("/proc/sys", *name.split("."))


def _reason(error: OSError | ValueError) -> str:
    """Return the reason of an error without the path, so that equal reasons of different settings have equal texts."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _claims(settings: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """The claims by name of a setting."""
    return {name: entry["claims"] for name, entry in settings.items()}


class HostSettings:
    """The kernel settings of one host. `register` is the file of the register, in a folder that all instances share."""

    def __init__(self, register: Path) -> None:
        self.register = register

    def claim(self, instance: str, wanted: Mapping[str, int], write: bool = True) -> dict[str, Any]:
        """Replace the claims of `instance` with `wanted`, the least value by name of a setting.

        Returns {"changed": [names of settings changed on the host], "refused": {name: reason}, "noted": whether a claim changed}. A
        setting that the host refuses (in a container, or a kernel without it) is not an error, and a value that others have raised
        is no change. With `write` false nothing is changed.
        """
        # Without claims and without a register there is nothing to release, and the folder is not created.
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
                # A setting that was not set must not be restored later: others may have changed it by then.
                settings[name]["claims"].pop(instance, None)
                if not settings[name]["claims"]:
                    del settings[name]
            return {"changed": changed, "refused": refused, "noted": _claims(settings) != _claims(before)}

    def release(self, instance: str, write: bool = True) -> dict[str, Any]:
        """Remove all claims of `instance`. Settings without claims get their original value. Returns what `claim` returns."""
        return self.claim(instance, {}, write)

    def renew(self) -> None:
        """Apply all claims again, after a reboot has reset the settings."""
        with self._locked(self.register.exists()) as settings:
            self._respect_others(settings)
            self._apply(settings, {}, True)

    def _respect_others(self, settings: dict[str, Any]) -> None:
        """Note a current value above all claims, which others have set, as the original value."""
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

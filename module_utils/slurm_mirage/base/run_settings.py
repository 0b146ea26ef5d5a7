"""run.json: the settings of a run, each checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from . import strict_json
from .errors import WrongUse
from .strict_json import OBJECT

Value = TypeVar("Value")


class RunSettings:
    """The content of a run.json. Keys that no method is asked for are ignored. Every method raises WrongUse for a bad value."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self._path, self._content = path, content

    @classmethod
    def read(cls, path: Path) -> RunSettings:
        """The file `path`."""
        try:
            return cls(path, strict_json.read(path, OBJECT))
        except FileNotFoundError as error:
            raise WrongUse(f"{path}: cannot be read: {error}") from error

    def text(self, name: str, default: str | None = None) -> str:
        """The value of a key that holds a text. Without a default the key must exist."""
        value = self._value(name) if default is None else self._content.get(name, default)
        if not isinstance(value, str):
            raise self._refusal(name, value)
        return value

    def text_or_none(self, name: str) -> str | None:
        """A text or null."""
        value = self._value(name)
        if value is not None and not isinstance(value, str):
            raise self._refusal(name, value)
        return value

    def mapping_or_none(self, name: str) -> Mapping[str, Any] | None:
        """An object; None for null, and if the key is not there."""
        value = self._content.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self._refusal(name, value)
        return value

    def list_or_empty(self, name: str) -> Sequence[Any]:
        """A list; empty for null, and if the key is not there."""
        value = self._content.get(name)
        if value is not None and not isinstance(value, list):
            raise self._refusal(name, value)
        return value or []

    def positive(self, name: str) -> float:
        """A number above 0."""
        value = self._value(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
            raise self._refusal(name, value)
        return value

    def whole(self, name: str) -> int:
        """A whole number from 0 on; 0 if the key is not there."""
        value = self._content.get(name, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._refusal(name, value)
        return value

    def one_of(self, name: str, known: Mapping[str, Value], default: str) -> Value:
        """The value that `known` has for the text of a key."""
        chosen = self.text(name, default)
        if chosen not in known:
            raise WrongUse(f"{self._path}: {name} {chosen!r}: may be one of {', '.join(sorted(known))}")
        return known[chosen]

    def _value(self, name: str) -> Any:
        try:
            return self._content[name]
        except KeyError as error:
            raise WrongUse(f"{self._path}: {error} is missing") from error

    def _refusal(self, name: str, value: object) -> WrongUse:
        return WrongUse(f"{self._path}: {name} may not be {value!r}")

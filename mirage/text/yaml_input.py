"""Reads a YAML file that a user names, without more time or memory than its size is worth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mirage.text.input_file import read_input

LARGEST = 256 << 10
"""Bytes; parsing so many takes a second. machines/example.yml has fewer than a thousand."""

_MOST_VALUES = 1_000_000  # with all aliases written out


def load(path: Path | str, parameter: str) -> Any:
    """The content of a regular file, which the parameter `parameter` names.

    Raises WrongUse for a file that cannot be read, and yaml.YAMLError, ValueError or RecursionError for one that is not YAML or
    whose aliases (`*name`) stand for too many values.
    """
    return parsed(read_input(path, parameter, LARGEST))


def parsed(content: bytes) -> Any:
    """The content of YAML. Raises as `load` does, and ValueError for more than LARGEST bytes."""
    import yaml  # 10 ms that calls without such a file save

    if len(content) > LARGEST:
        raise ValueError("is too large")
    loader = yaml.SafeLoader(content)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _values(node, {}) > _MOST_VALUES:
            raise ValueError("aliases stand for too many values")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _values(node: Any, known: dict[int, int]) -> int:
    """Number of values below a node, with all aliases written out; an alias of a node that holds it counts as too many."""
    if id(node) not in known:
        known[id(node)] = _MOST_VALUES
        parts = node.value if isinstance(node.value, list) else []
        items = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
        known[id(node)] = 1 + sum(_values(item, known) for item in items)
    return known[id(node)]

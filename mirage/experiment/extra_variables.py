"""Marks the text of extra variables as data, so that Ansible does not template it.

ansible-core loads a file of extra variables as trusted: from 2.19 on each text in it would be run as a template if it holds `{{`
or `{%`. Values come from users' files, archives and logs, so every text in them loses this trust. Text that is not trusted stays so
in each variable, fact and result that is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

UNTRUSTED = "__ansible_unsafe"
"""The key with which Ansible's JSON marks a text that is never templated."""
_RESERVED = "__ansible_"


def untrusted(value: Any) -> Any:
    """The value for a JSON file of extra variables, with each text at any depth marked as data.

    Ansible does not template the keys of mappings. Raises ValueError for a key that Ansible's JSON would take as a mark.
    """
    if isinstance(value, str):
        return {UNTRUSTED: str(value)}
    if isinstance(value, Mapping):
        if reserved := [key for key in value if str(key).startswith(_RESERVED)]:
            raise ValueError(f"{reserved[0]} is a name that Ansible keeps for itself")
        return {str(key): untrusted(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [untrusted(each) for each in value]
    return value

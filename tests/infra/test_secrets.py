"""The munge key, a cluster's only secret, is in no result, no log and no file that other users may read.

Who has it can submit jobs as any user. It is in etc/munge.key of each host; Ansible takes it from the head to the others.
"""

from __future__ import annotations

import base64
import gzip
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import testinfra
from running import ROOT
from several import names_of

pytestmark = pytest.mark.cluster

RESULTS = Path(__file__).parents[2] / "results"
LENGTH = 32
"""Bytes in a piece of a secret. An output may be cut or wrapped; a piece of the secret is in it nevertheless."""
FILES = "find {directory} -type f -perm -o=r -size -10M -exec cat {{}} +"
ANSIBLE_LOG = "{ journalctl --quiet --no-pager; cat /var/log/syslog /var/log/messages; } 2>/dev/null | grep ansible-"

Forms = Mapping[str, list[bytes]]


def forms_of(secret: bytes) -> Forms:
    """Return the pieces of a secret as it is, in base64 (as Ansible passes files on) and in hexadecimal digits, by form."""
    forms = {"raw": secret, "base64": base64.b64encode(secret), "hex": secret.hex().encode()}
    return {form: [text[at : at + LENGTH] for at in range(0, len(text) - LENGTH + 1, LENGTH)] for form, text in forms.items()}


def forms_in(content: bytes, forms: Forms) -> list[str]:
    """Return the forms in which a piece of the secret is in `content`."""
    return [form for form, pieces in forms.items() if any(piece in content for piece in pieces)]


def leaks_below(folder: Path, forms: Forms) -> Iterator[str]:
    """Yield the path and the forms of each file below `folder` that has a piece of the secret."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if found := forms_in(gzip.decompress(content) if path.suffix == ".gz" else content, forms):
                yield f"{path}: {', '.join(found)}"


@pytest.fixture
def hosts(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The hosts of the inventory by name, the head first."""
    inventory = pytestconfig.getoption("ansible_inventory")
    return {name: testinfra.get_host(f"ansible://{name}?ansible_inventory={inventory}") for name in names_of(inventory)}


@pytest.fixture
def directory() -> str:
    return f"{ROOT}/{os.environ.get('CLUSTER', 'mirage')}"


@pytest.fixture
def forms(hosts: Mapping[str, Any], directory: str) -> Forms:
    """The cluster's key."""
    key = next(iter(hosts.values())).file(f"{directory}/etc/munge.key").content
    assert len(key) >= 2 * LENGTH
    return forms_of(key)


def test_no_result_or_log_of_a_run_has_the_key(forms: Forms) -> None:
    assert list(leaks_below(RESULTS, forms)) == []


def test_no_file_of_the_instance_that_others_may_read_has_the_key(forms: Forms, hosts: Mapping[str, Any], directory: str) -> None:
    for name, host in hosts.items():
        content = host.run(FILES.format(directory=directory)).stdout_bytes
        assert len(content) > 1000
        assert (name, forms_in(content, forms)) == (name, [])


def test_the_hosts_log_of_ansibles_modules_does_not_have_the_key(forms: Forms, hosts: Mapping[str, Any]) -> None:
    for name, host in hosts.items():
        assert (name, forms_in(host.run(ANSIBLE_LOG).stdout_bytes, forms)) == (name, [])


def test_a_planted_key_is_found(forms: Forms, hosts: Mapping[str, Any], directory: str, tmp_path: Path) -> None:
    key = next(iter(hosts.values())).file(f"{directory}/etc/munge.key").content
    (tmp_path / "run").mkdir()
    (tmp_path / "run/ansible.log").write_text(f'"content": "{base64.b64encode(key).decode()}"\n')
    (tmp_path / "run/dump").write_bytes(b"\0" + key[LENGTH:] + b"\0")
    (tmp_path / "run/hex.gz").write_bytes(gzip.compress(key.hex().encode()))
    (tmp_path / "run/plan.csv").write_text("index,id\n")
    found = [leak.removeprefix(f"{tmp_path}/run/") for leak in leaks_below(tmp_path, forms)]
    assert found == ["ansible.log: base64", "dump: raw", "hex.gz: hex"]

"""Fixtures for the running cluster: CLUSTER, NODES and CPUS identify it, and the inventory has its hosts."""

from __future__ import annotations

import os
from typing import Any

import pytest
from running import Cluster
from several import Hosts, names_of

ONE_HOST = {"test_running_cluster.py"}
SEVERAL_HOSTS = {"test_several_hosts.py", "test_bed.py", "test_filler_container.py"}


def knobs() -> tuple[str, int, int]:
    return os.environ.get("CLUSTER", "mirage"), int(os.environ.get("NODES", 360)), int(os.environ.get("CPUS", 16))


@pytest.fixture
def cluster(host: Any) -> Cluster:
    return Cluster(host, *knobs())


@pytest.fixture(scope="session")
def hosts(pytestconfig: pytest.Config) -> Hosts:
    """The hosts of the inventory, and the cluster on them as its head sees it."""
    return Hosts.of(pytestconfig.getoption("ansible_inventory"), *knobs())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests for another number of hosts."""
    inventory = config.getoption("ansible_inventory", None)
    several = inventory is not None and len(names_of(inventory)) > 1
    others = ONE_HOST if several else SEVERAL_HOSTS
    config.hook.pytest_deselected(items=[item for item in items if item.path.name in others])
    items[:] = [item for item in items if item.path.name not in others]

"""The running cluster that the tests look at: CLUSTER, NODES and CPUS say which one."""

from __future__ import annotations

import os
from typing import Any

import pytest
from running import Cluster


@pytest.fixture
def cluster(host: Any) -> Cluster:
    return Cluster(host, os.environ.get("CLUSTER", "mirage"), int(os.environ.get("NODES", 360)), int(os.environ.get("CPUS", 16)))

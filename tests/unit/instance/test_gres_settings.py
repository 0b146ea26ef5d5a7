"""The settings that nodes with GRES need."""

from __future__ import annotations

from slurm_mirage.instance.slurm_configuration import gres_settings

DATABASE = {"AccountingStorageType": "accounting_storage/slurmdbd"}


def test_gres_are_tres_where_there_is_a_database() -> None:
    assert gres_settings("gpu,nvme", DATABASE) == {"GresTypes": "gpu,nvme", "AccountingStorageTRES": ["gres/gpu", "gres/nvme"]}
    assert gres_settings("gpu", {}) == {"GresTypes": "gpu"}
    assert gres_settings("gpu", {"AccountingStorageType": "accounting_storage/none"}) == {"GresTypes": "gpu"}
    assert gres_settings("", DATABASE) == {}

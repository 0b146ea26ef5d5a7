"""OpenPBS in the tables of resource managers (rm/managers.py and rm/registry.py)."""

from __future__ import annotations

from ...rm.rows import HostTools, Implementation, Manager, Other
from . import daemons
from .traits import TRAITS


def implementation() -> Implementation:
    """What other tools than the farm use."""
    from . import collection, daemon_log, leftovers
    from .commands import OpenPbs

    # Imported only so that Ansible ships it with what installs the instance's programs.
    from .programs import datastore  # noqa: F401

    return Implementation(
        OpenPbs.of_run,
        OpenPbs.records,
        # It frees the processors of a job before it writes the job's end: there is nothing to collect besides.
        tools=HostTools(
            OpenPbs.of_instance,
            daemon_log.of_instance,
            daemon_log.by_kind,
            lambda instance, run: [(instance, path) for path in (f"runs/{run}/pbs.csv", daemons.ACCOUNTING, "etc/pbs.conf")],
            collection.CONFIGURATION_FILE,
            remove_leftovers=leftovers.remove,
        ),
    )


OTHER = Other(
    "openpbs", Manager(daemons.KINDS, TRAITS, daemons.farm_content, "PBS_CONF_FILE", "pbs_conf", "etc/pbs.conf"), implementation
)

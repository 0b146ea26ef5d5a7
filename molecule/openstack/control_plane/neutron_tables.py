"""`neutron_tables.py NEUTRON_CONF`: creates neutron's tables, and the record of an agent for each host.

neutron's migrations do not support sqlite, so the tables are created from its models. Runs in the control plane's virtual
environment.
"""

from __future__ import annotations

import json
import sys
import uuid
from datetime import datetime

from configuration import HOSTS
from neutron.common import config

config.register_common_config_options()
config.init(["--config-file", sys.argv[1]])

from neutron.db.migration.models import head  # noqa: E402 (its models need the configuration)
from neutron_lib.db import api  # noqa: E402

TABLES = head.get_metadata()
ENGINE = api.get_context_manager().writer.get_engine()
BEFORE, LONG_AFTER = datetime(2026, 1, 1), datetime(2099, 1, 1)
BRIDGES = {
    "bridge_mappings": {"physnet1": "br-ex"},
    "tunnel_types": ["vxlan"],
    "tunneling_ip": "127.0.0.1",
    "datapath_type": "system",
    "integration_bridge": "br-int",
}

TABLES.create_all(ENGINE)
with ENGINE.begin() as connection:
    for host in HOSTS:
        connection.execute(
            TABLES.tables["agents"].insert(),
            {
                "id": str(uuid.uuid4()),
                "agent_type": "Open vSwitch agent",
                "binary": "neutron-openvswitch-agent",
                "topic": "N/A",
                "host": host,
                "availability_zone": "",
                "admin_state_up": True,
                "created_at": BEFORE,
                "started_at": BEFORE,
                # An agent counts as alive while its last heartbeat is recent.
                "heartbeat_timestamp": LONG_AFTER,
                "configurations": json.dumps(BRIDGES),
                "resource_versions": "{}",
                "load": 0,
            },
        )

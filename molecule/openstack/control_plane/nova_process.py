"""Nova in one process: its API, and conductor, scheduler and a compute service of each host as threads, which reach each other
without a message broker. Runs in the control plane's own virtual environment.
"""

# ruff: noqa: E402, I001 (nova has to be told first, and its API to be loaded before what it configures)
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import os
import shlex
import time
from pathlib import Path

import sqlalchemy


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "before_cursor_execute", retval=True)
def begin_as_writer(connection, cursor, statement, parameters, context, many):
    """Have each transaction wait for its turn: sqlite refuses at once when one that has read wants to write after another has."""
    return ("BEGIN IMMEDIATE" if statement == "BEGIN" else statement), parameters


from nova.api.openstack import wsgi_app

api = wsgi_app.init_application("osapi_compute", "nova-api-os-compute")
# While this file is there, the answer to an order of servers comes so many seconds late, as in a busy cloud.
LATE, SECONDS = Path(os.environ["OS_NOVA_CONFIG_DIR"]).parents[1] / "late", 5


def application(environ, start_response):
    """The API."""
    answer = list(api(environ, start_response))
    if environ["REQUEST_METHOD"] == "POST" and environ["PATH_INFO"].endswith("/servers") and LATE.exists():
        time.sleep(SECONDS)
    return answer


import os_vif
from nova import context, objects, service, utils
from nova.compute import rpcapi as compute
from nova.conductor import rpcapi as conductor
from nova.objects import host_mapping
from nova.scheduler import rpcapi as scheduler
from oslo_privsep import priv_context

from configuration import HOSTS

priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
objects.Service.enable_min_version_cache()
os_vif.initialize()

SERVICES = [
    service.Service.create(binary="nova-conductor", topic=conductor.RPC_TOPIC),
    service.Service.create(binary="nova-scheduler", topic=scheduler.RPC_TOPIC),
]
SERVICES += [
    service.Service.create(host=host, binary="nova-compute", topic=compute.RPC_TOPIC, topic_alt=compute.RPC_TOPIC_ALT)
    for host in HOSTS
]
for one in SERVICES:
    one.start()
# Else hosts are found by a task that looks once a minute.
host_mapping.discover_hosts(context.get_admin_context())

"""Runs nova in one process: its API, and threads of its conductor, its scheduler and a compute service per host.

The services communicate without a message broker. Runs in the control plane's virtual environment.
"""

# ruff: noqa: E402, I001 (nova must be patched first, and its API must be loaded before modules that it configures)
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import os
import shlex
import time
from pathlib import Path

import sqlalchemy


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "before_cursor_execute", retval=True)
def begin_as_writer(connection, cursor, statement, parameters, context, many):
    """Begin each transaction as a writer: in sqlite, a reader that becomes a writer after another write fails at once."""
    return ("BEGIN IMMEDIATE" if statement == "BEGIN" else statement), parameters


from nova.api.openstack import wsgi_app

api = wsgi_app.init_application("osapi_compute", "nova-api-os-compute")
# While this file exists, the answer to a server request is delayed by so many seconds, as in a busy cloud.
LATE, SECONDS = Path(os.environ["OS_NOVA_CONFIG_DIR"]).parents[1] / "late", 5


def application(environ, start_response):
    """WSGI application of nova's API, with an optional delay of server requests."""
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
# Otherwise a periodic task discovers the hosts only once a minute.
host_mapping.discover_hosts(context.get_admin_context())

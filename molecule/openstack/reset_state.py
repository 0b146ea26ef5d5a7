"""`reset_state.py CLOUD SERVER STATE`: have nova say that a server is `active`, or in `error`, as an administrator may."""

from __future__ import annotations

import sys

import openstack

cloud, server, state = sys.argv[1:]
openstack.connect(cloud=cloud).compute.reset_server_state(server, state)

"""`reset_state.py CLOUD SERVER STATE`: sets the state of a server to `active` or `error`, with administrator rights."""

from __future__ import annotations

import sys

import openstack

cloud, server, state = sys.argv[1:]
openstack.connect(cloud=cloud).compute.reset_server_state(server, state)

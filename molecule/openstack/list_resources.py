"""`list_resources.py CLOUD`: prints the names of all resources of the user's project as one line of JSON, for comparisons."""

from __future__ import annotations

import json
import sys

import openstack

cloud = openstack.connect(cloud=sys.argv[1])
project = cloud.current_project_id
network, compute = cloud.network, cloud.compute
resources = {
    "networks": [one.name for one in network.networks(project_id=project)],
    "subnets": [one.name for one in network.subnets(project_id=project)],
    "routers": [one.name for one in network.routers(project_id=project)],
    "security groups": [one.name for one in network.security_groups(project_id=project)],
    "floating IPs": [one.floating_ip_address for one in network.ips(project_id=project)],
    "ports": [f"{one.device_owner} {one.device_id}" for one in network.ports(project_id=project)],
    "keys": [one.name for one in compute.keypairs()],
    "server groups": [one.name for one in compute.server_groups()],
    "servers": [f"{one.name} {one.status}" for one in compute.servers()],
}
print(json.dumps({kind: sorted(names) for kind, names in resources.items()}, sort_keys=True))

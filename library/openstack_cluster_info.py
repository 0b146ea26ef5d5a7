#!/usr/bin/python
"""Ansible module: what a cluster has in an OpenStack cloud, and whether the cloud can give what it still lacks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_cluster_info
short_description: A cluster's servers and networks in a cloud, and the room for them
description:
  - Returns the servers, networks and other things in a project of an OpenStack cloud that are a cluster's, and changes nothing.
  - What is a cluster's is told by a mark, C(slurm-mirage:CLUSTER), in the description of networks, subnets, routers, security
    groups and floating IPs, in the comment of the public key and in the metadata of servers. A server group has no room for a mark;
    it is the cluster's when it bears its name and the cluster's security group is there, which is made first and removed last.
  - With O(wanted), fails when the cloud does not have what is wanted, when the project's quotas are too small for what is missing,
    or when something else in the project bears a name of the cluster.
  - Runs on the control machine. The credentials are read from C(clouds.yaml) by openstacksdk and are not returned.
options:
  cloud:
    description: Name of the cloud in C(clouds.yaml), which nobody but its owner may read.
    type: str
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  wanted:
    description: What the cluster shall consist of. Without it, things of the cluster are listed, and nothing is checked.
    type: dict
    suboptions:
      computes:
        description: Number of compute servers.
        type: int
        required: true
      head_is_compute:
        description: Whether the head is a compute host too.
        type: bool
        default: false
      flavor:
        description: Flavour of the compute servers.
        type: str
        required: true
      head_flavor:
        description: Flavour of the head.
        type: str
        required: true
      image:
        description: Image of all servers, by its name or id.
        type: str
        required: true
      zone:
        description: Availability zone of all servers; empty is the cloud's choice.
        type: str
        default: ""
      network:
        description: Name of a network that is there, instead of one of the cluster's own.
        type: str
        default: ""
      external_network:
        description: Name of the external network that the router leads to; empty is no router.
        type: str
        default: ""
      policy:
        description: Policy of the server group; C(none) is no server group.
        type: str
        default: none
      public_key:
        description: The public key, in one line, that the servers shall admit.
        type: str
        required: true
      rules:
        description: Number of rules of the security group.
        type: int
        default: 0
author:
  - The Slurm Mirage developers
requirements:
  - openstacksdk
attributes:
  check_mode:
    support: full
"""

EXAMPLES = r"""
- name: Look what cluster mirage has
  openstack_cluster_info:
    cloud: openstack
    cluster: mirage
"""

RETURN = r"""
servers:
  description:
    - The cluster's servers, by name, each with its id, name, status and port, and whether it has ever run (has_run).
    - In state ERROR the fault is what the cloud says to it, or V(no reason); else it is empty.
  returned: always
  type: list
found:
  description: Id of each other thing of the cluster that is there (security_group, network, subnet, router, key_pair, server_group,
    floating_ip).
  returned: always
  type: dict
network:
  description: Id of the network that the servers are in; empty when it has to be made.
  returned: always
  type: str
external_network:
  description: Id of the external network; empty without one.
  returned: always
  type: str
names:
  description: Name of each thing of a cluster beside its servers, whether it is there or not.
  returned: always
  type: dict
plan:
  description: Name, flavor and metadata of each server that is wanted, the head first.
  returned: with O(wanted)
  type: list
guests:
  description:
    - What else uses things of the cluster, by names or ids.
    - Servers, ports, subnets and routers in its network; networks at its router; ports with its security group.
  returned: without O(wanted)
  type: list
preview:
  description: What the cluster costs, in lines.
  returned: with O(wanted)
  type: list
"""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule, missing_required_lib
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.cloud import plan as cloud_plan
from ansible.module_utils.slurm_mirage.cloud.project import Cluster, Wanted, reason_of

try:
    import openstack
    from keystoneauth1 import exceptions as refused
    from openstack import exceptions as errors
    from openstack.config import loader
except ImportError:
    openstack = None


def check_private(path: str) -> None:
    """Raise WrongUse when others than its owner may read a file of credentials."""
    mode = stat.S_IMODE(Path(path).stat().st_mode)
    if mode & 0o077:
        raise WrongUse(f"{path}: it holds a password, and others may read it (mode {mode:04o}); chmod 600 it")


def connect(cloud: str) -> Any:
    """A connection to the cloud, which has accepted the credentials."""
    try:
        config = loader.OpenStackConfig()
        region = config.get_one(cloud=cloud)
    except errors.SDKException as error:
        places = "OS_CLIENT_CONFIG_FILE, ./clouds.yaml, ~/.config/openstack/clouds.yaml, /etc/openstack/clouds.yaml"
        raise WrongUse(f"openstack_cluster_cloud: {one_line(error)} It may be a cloud of clouds.yaml ({places})") from None
    for path in (config.config_filename, config.secure_config_filename):
        if path:
            check_private(path)
    connection = openstack.connection.Connection(config=region)
    try:
        connection.session.get_token()
    except refused.Unauthorized:
        raise WrongUse(
            f"openstack_cluster_cloud: the cloud {cloud!r} refuses the credentials of {config.config_filename}"
        ) from None
    return connection


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def told_of(server: Any, port: str) -> dict[str, Any]:
    """What a role has to know of a server."""
    fault = reason_of(server) if server.status == "ERROR" else ""
    has_run = bool(server.launched_at)
    return {"id": server.id, "name": server.name, "status": server.status, "fault": fault, "has_run": has_run, "port": port}


def look(cloud: str, name: str, wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """All that the module returns."""
    cluster = Cluster(connect(cloud), name)
    ports = cluster.ports()
    result: dict[str, Any] = {
        "servers": [told_of(server, ports.get(server.id, "")) for server in cluster.servers],
        "found": {kind: item.name if kind == "key_pair" else item.id for kind, item in cluster.found.items() if item is not None},
        "network": cluster.found["network"].id if cluster.found["network"] else "",
        "external_network": "",
        "names": cluster.names,
    }
    if wanted is None:
        return {**result, "guests": cluster.guests()}
    plan = Wanted(cluster, wanted)
    plan.check_what_is_there()
    rooms = plan.rooms()
    plan.check_room(rooms)
    result["plan"] = plan.servers()
    result["preview"] = cloud_plan.preview(name, list(plan.flavors().values()), plan.missing(), rooms)
    return {**result, "network": plan.network or result["network"], "external_network": plan.external_network}


def main() -> None:
    """Look at the cloud."""
    module = AnsibleModule(
        argument_spec={
            "cloud": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "wanted": {
                "type": "dict",
                "options": {
                    "computes": {"type": "int", "required": True},
                    "head_is_compute": {"type": "bool", "default": False},
                    "flavor": {"type": "str", "required": True},
                    "head_flavor": {"type": "str", "required": True},
                    "image": {"type": "str", "required": True},
                    "zone": {"type": "str", "default": ""},
                    "network": {"type": "str", "default": ""},
                    "external_network": {"type": "str", "default": ""},
                    "policy": {"type": "str", "default": "none"},
                    "public_key": {"type": "str", "required": True, "no_log": False},
                    "rules": {"type": "int", "default": 0},
                },
            },
        },
        supports_check_mode=True,
    )
    if openstack is None:
        module.fail_json(msg=missing_required_lib("openstacksdk"))
    try:
        result = look(module.params["cloud"], module.params["cluster"], module.params["wanted"])
    except WrongUse as error:
        module.fail_json(msg=error.module_message())
    except (errors.SDKException, refused.ClientException) as error:
        module.fail_json(msg=f"the cloud {module.params['cloud']!r} does not answer as it should: {one_line(error)}")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()

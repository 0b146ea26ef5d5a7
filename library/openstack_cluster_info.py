#!/usr/bin/python
"""Ansible module: lists the resources of a cluster in an OpenStack cloud, and checks whether missing ones can be created."""

from __future__ import annotations

DOCUMENTATION = r"""
module: openstack_cluster_info
short_description: Gather a cluster's resources in an OpenStack cloud and check quotas
description:
  - Returns the servers, networks and other resources that belong to a cluster in a project of an OpenStack cloud. Changes nothing.
  - A resource belongs to a cluster if it has the mark C(slurm-mirage:CLUSTER) in its description (networks, subnets, routers,
    security groups, floating IPs), in the comment of the public key (key pairs) or in its metadata (servers). A server group cannot
    have a mark. It belongs to the cluster if it has its name and the cluster's security group exists, which is created first and
    deleted last.
  - With O(wanted), fails when the cloud does not have a wanted flavor, image, zone or network, when the project's quotas are too
    small for the missing resources, or when a resource outside the cluster has a name of the cluster.
  - Runs on the control machine. The credentials are read from C(clouds.yaml) by openstacksdk and are not returned.
extends_documentation_fragment: [shared]
options:
  cloud:
    description: Name of the cloud in C(clouds.yaml). Only the owner may have access to this file.
    type: str
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  wanted:
    description: The cluster to be created. Without it, the module lists the cluster's resources and checks nothing.
    type: dict
    suboptions:
      computes:
        description: Number of compute servers.
        type: int
        required: true
      head_is_compute:
        description: Whether the head is also a compute host.
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
        description: Name or id of the image of all servers.
        type: str
        required: true
      zone:
        description: Availability zone of all servers; if empty, the cloud chooses.
        type: str
        default: ""
      network:
        description: Name of an existing network to use; if empty, the cluster gets its own network.
        type: str
        default: ""
      external_network:
        description: Name of the external network that the router connects to; if empty, there is no router.
        type: str
        default: ""
      policy:
        description: Policy of the server group; with C(none) there is no server group.
        type: str
        default: none
      public_key:
        description: Public key for SSH access to the servers, in one line.
        type: str
        required: true
      rules:
        description: Number of rules in the security group.
        type: int
        default: 0
requirements:
  - openstacksdk
"""

EXAMPLES = r"""
- name: List the resources of cluster mirage
  openstack_cluster_info:
    cloud: openstack
    cluster: mirage
"""

RETURN = r"""
servers:
  description:
    - The cluster's servers, sorted by name, each with its id, name, status and port, and whether it has ever run (has_run).
    - In state ERROR, fault is the cloud's message or V(no reason); otherwise it is empty.
  returned: always
  type: list
found:
  description: Id of each other existing resource of the cluster, by kind (security_group, network, subnet, router, key_pair,
    server_group, floating_ip).
  returned: always
  type: dict
network:
  description: Id of the servers' network; empty when it has to be created.
  returned: always
  type: str
external_network:
  description: Id of the external network; empty when there is none.
  returned: always
  type: str
names:
  description: Name of each resource of the cluster besides its servers, whether it exists or not.
  returned: always
  type: dict
plan:
  description: Name, flavor and metadata of each wanted server, the head first.
  returned: with O(wanted)
  type: list
guests:
  description:
    - Other resources that use the cluster's, by name or id.
    - These are servers, ports, subnets and routers in its network, networks at its router, and ports with its security group.
  returned: without O(wanted)
  type: list
preview:
  description: Lines with the servers, cores and memory that the cluster needs, and what the project has left.
  returned: with O(wanted)
  type: list
"""

import stat
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import missing_required_lib
from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.base.errors import WrongUse
from ansible.module_utils.slurm_mirage.cloud.description import describe

try:
    import openstack
    from keystoneauth1 import exceptions as refused
    from openstack import exceptions as errors
    from openstack.config import loader
except ImportError:
    openstack = None


def check_private(path: str) -> None:
    """Raise WrongUse when users other than the owner have access to the file of credentials `path`."""
    mode = stat.S_IMODE(Path(path).stat().st_mode)
    if mode & 0o077:
        raise WrongUse(f"{path}: it holds a password, and others may read it (mode {mode:04o}); chmod 600 it")


def connect(cloud: str) -> Any:
    """Return an authenticated connection to the cloud. Raises WrongUse when clouds.yaml or the credentials are wrong."""
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


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    if openstack is None:
        raise RuntimeError(missing_required_lib("openstacksdk"))
    try:
        return describe(connect(module.params["cloud"]), module.params["cluster"], module.params["wanted"])
    except (errors.SDKException, refused.ClientException) as error:
        raise RuntimeError(f"request to the cloud {module.params['cloud']!r} failed: {one_line(error)}") from error


if __name__ == "__main__":
    main()

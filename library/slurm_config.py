#!/usr/bin/python
"""Ansible module: writes slurm.conf and the slim configuration files of the emulated nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config
short_description: Write slurm.conf and a slim configuration file for each emulated node
description:
  - Writes C(etc/slurm.conf) (all nodes and partitions, for slurmctld and the commands), C(etc/common.conf) (only the settings) and
    C(etc/nodes/NODE.conf) (the node's line and an Include of C(common.conf)) below the instance's directory.
  - A slurmd needs only its own line if no step runs on more than one node. If it reads the whole cluster, its memory and start-up
    time grow with the cluster; see O(wide_steps).
  - The nodes are placed on the block's ports, and on further loopback addresses when these are used up. Nodes that are in the
    existing C(etc/slurm.conf) keep their places.
  - With O(hosts) the nodes are distributed to several hosts. C(etc/slurm.conf) contains all nodes; the slim files and the returned
    nodes are those of this host.
  - With O(front_ends) this number of slurmd stands for all nodes. Only the front ends have places, and all slurmd read
    C(etc/slurm.conf).
  - If nodes have GRES (option C(Gres) in O(nodes[].extra)), C(GresTypes) and, with slurmdbd, C(AccountingStorageTRES) are set
    unless O(settings) contains them, and C(gres.conf) is written to the folder of the file that slurmd reads. The device files of
    GPUs are links to C(/dev/null), C(etc/gpu0) and so on.
  - Files of removed nodes are deleted.
extends_documentation_fragment: [shared, shared.directory, shared.nodes]
options:
  settings:
    description: Settings by their names in slurm.conf(5). The value V(omit) leaves a setting out.
    type: dict
    required: true
  nodes:
    description: Classes of equal nodes.
    required: true
  port:
    description: First port of the instance's block, as returned by M(slurm_instance). slurmctld uses it; the nodes use the others.
    type: int
    required: true
  ports:
    description: Number of ports in the block.
    type: int
    required: true
  address:
    description:
      - Address on which the daemons listen. Without O(hosts), nodes use the addresses that follow it when its ports are used up.
    type: str
    default: 127.0.0.1
  hostname:
    description:
      - Host name that resolves to O(address). Nodes on further addresses, and with O(hosts) all nodes, have their address as host
        name.
    type: str
    default: localhost
  hosts:
    description:
      - Addresses of the compute hosts of a cluster of several hosts, in order. All of them have the same block of ports.
      - Empty for a cluster on this host only.
    type: list
    elements: str
    default: []
  known:
    description:
      - With O(hosts), the NodeName lines of the head's earlier C(etc/slurm.conf), as returned by M(slurm_placement_info). These
        nodes keep their places.
    type: str
    default: ''
  front_ends:
    description:
      - Number of slurmd, C(frontend1) and so on, that stand for all nodes. Needs a Slurm release with front-end mode; see
        M(slurm_release_info).
      - V(0) means one slurmd per node.
    type: int
    default: 0
  wide_steps:
    description:
      - Whether steps (srun) can run on several nodes. All slurmd then read C(etc/slurm.conf), and there are no slim files.
      - This is needed because a slurmstepd reports its end to the slurmstepd of another node, whose address its slurmd must know.
    type: bool
    default: false
  extras:
    description:
      - Settings of the extras (folders of C(mirage_extras)) that the cluster has, by name. They add to O(settings) and
        O(partitions), and fail where these leave them no room.
    type: dict
    default: {}
  partitions:
    description: Partitions, each a mapping with C(name) and further options of the PartitionName line.
    type: list
    elements: dict
    required: true
  topology:
    description: Content of C(topology.conf), which slurmctld reads. Without it there is no such file.
    type: str
    default: ''
  others:
    description:
      - Other configurations that slurmctld may read during a run, by name, each a mapping with C(settings) and C(partitions) that
        take the place of O(settings) and O(partitions). C(etc/slurm.conf.NAME) is the complete file of each.
      - If there are any, slurmctld has to read C(etc/active-slurm.conf), a link to a copy of one of them below C(run).
    type: dict
    default: {}
  speed:
    description:
      - Speed of the virtual clock. Above 1, the time-outs in O(settings) and Slurm's default time-outs are multiplied by it, so
        that they do not change in real time.
    type: float
    default: 1.0
  event_clock:
    description:
      - Whether the cluster has the event clock. C(SlurmdTimeout) and C(MinJobAge) are then long enough for it.
    type: bool
    default: false
  silent_nodes:
    description:
      - Whether nodes that do not answer are to be noticed, because a run has such events. C(SlurmdTimeout) then stays as in real
        time on the event clock.
    type: bool
    default: false
  controllers:
    description:
      - Number of slurmctld. With V(2) a second one takes over when the first does not answer. It has the address after O(address),
        with O(hosts) O(second_address). Its host has C(etc/slurm2.conf), which differs from C(etc/slurm.conf) in the names of its
        log and its pid file.
      - V(2) needs Slurm 18.08 or later. With O(hosts), C(StateSaveLocation) and C(JobCompLoc) have to be in a folder that the
        hosts of both share.
    type: int
    choices: [1, 2]
    default: 1
  second_name:
    description: With O(hosts), host name that the second slurmctld sees. It resolves to O(second_address).
    type: str
    default: ''
  second_address:
    description: With O(hosts), address of the host of the second slurmctld.
    type: str
    default: ''
  version:
    description:
      - Release of Slurm that reads the files, as printed by C(slurmctld -V). Settings get the names that they have in this release,
        those that it does not have yet are left out, and C(cgroup.conf) is written if the release needs it.
      - If empty, the files are written for Slurm 22.05.
    type: str
    default: ''
attributes:
  diff_mode:
    support: full
"""

EXAMPLES = r"""
- name: Configure 360 nodes
  slurm_config:
    directory: /var/lib/slurm-mirage/mirage
    settings:
      ClusterName: mirage
      SchedulerType: sched/backfill
    nodes:
      - count: 360
        cpus: 16
    port: 17000
    ports: 361
    partitions:
      - name: batch
        Default: true
"""

RETURN = r"""
files:
  description: Files that were written or removed, at most ten.
  returned: always
  type: list
  elements: str
slurmctld_digest:
  description: Digest of everything that slurmctld reads.
  returned: always
  type: str
second_hostname:
  description: Host name that the second slurmctld sees, for M(slurm_farm). Empty where none runs on this host.
  returned: always
  type: str
nodes:
  description: The nodes or front ends of this host, for M(slurm_farm), with one entry for each range of consecutive ports of one
    address.
  returned: always
  type: list
  elements: dict
  contains:
    prefix:
      description: Prefix of the nodes' names, before the number.
      type: str
    first:
      description: Number of the first node.
      type: int
    count:
      description: Number of nodes.
      type: int
    hostname:
      description: Host name that their slurmd see. It resolves to their address.
      type: str
    digest:
      description: Digest of everything that their slurmd read.
      type: str
"""

from ansible.module_utils.module_main import AnsibleModule, Result, module_main
from ansible.module_utils.slurm_mirage.instance.slurm_configuration import configure


@module_main(DOCUMENTATION)
def main(module: AnsibleModule) -> Result:
    return configure(module.params, not module.check_mode)


if __name__ == "__main__":
    main()

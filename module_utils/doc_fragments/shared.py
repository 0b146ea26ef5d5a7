"""Options that several modules have. `module_main` reads them as well, on the hosts."""

from __future__ import annotations


class ModuleDocFragment:
    """What `extends_documentation_fragment: [shared, shared.NAME]` adds; the keys that a module gives of an option go first."""

    DOCUMENTATION = r"""
author:
  - The Slurm Mirage developers
attributes:
  check_mode:
    support: full
"""

    DIRECTORY = r"""
options:
  directory:
    description: Directory of the instance.
    type: path
    required: true
"""

    INSTANCE = r"""
options:
  name:
    description: Name of the instance.
    type: str
    required: true
  root:
    description: Folder with the directories of all instances of the host.
    type: path
    default: /var/lib/slurm-mirage
"""

    RUN = r"""
options:
  instance:
    description: Directory of the instance.
    type: path
    required: true
  run:
    description: Name of the run.
    type: str
    required: true
"""

    NODES = r"""
options:
  nodes:
    description: Classes of equal nodes, as in M(slurm_config).
    type: list
    elements: dict
    suboptions:
      prefix:
        description: Prefix of the nodes' names, before the number.
        type: str
        default: n
      first:
        description:
          - Number of the first node.
          - The default follows the last class with the same prefix (without Slurm, the last class), or is 1.
        type: int
      count:
        description: Number of nodes.
        type: int
        required: true
      cpus:
        description: Processors of each node.
        type: int
        required: true
      extra:
        description: Further options of the NodeName line (RealMemory, Feature, Gres, Sockets). Only Slurm takes them.
        type: dict
        default: {}
"""

    SPEED = r"""
options:
  speed:
    description: Speed of the virtual clock. Above 1, time-outs that guard against slow machines are multiplied by it.
    type: float
    default: 1.0
"""

    STATE = r"""
options:
  state:
    type: str
    choices: [present, absent]
    default: present
"""

    FIREWALL = r"""
options:
  hosts:
    description: Addresses and networks that may reach O(ports).
    type: list
    elements: str
    default: []
  ports:
    description: Ports and port ranges, such as V(111/udp) and V(17000-17360/tcp).
    type: list
    elements: str
    default: []
"""

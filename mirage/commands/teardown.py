"""`make teardown`: stops and removes the instance; results stay."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mirage.campaign.lanes import remove
from mirage.commands.logs import new_log
from mirage.experiment import preflight
from mirage.experiment.endings import Ending
from mirage.experiment.hosts import run_hosts
from mirage.experiment.playbook import interruptible, run_playbook
from mirage.knobs.knobs import Knobs
from mirage.terminal.screen import Screen


def teardown(knobs: Knobs, screen: Screen) -> Ending:
    """Run the playbook, which stops and removes only what the instance CLUSTER has started; then for those that belong to it."""
    inventory, cluster = preflight.inventory(knobs.cluster), knobs.cluster.name
    preflight.privileges(knobs.cluster)
    log = new_log("teardown", cluster)
    if hosts := run_hosts(knobs.cluster):
        return _on_run_hosts(cluster, hosts, inventory, screen, log)
    watcher = run_playbook("teardown", {"mirage_cluster": cluster}, inventory, screen, log)
    results = watcher.of_hosts.get("slurm_instance_info", {}).values()
    further = list(dict.fromkeys(name for host in results for name in host["belonging"]))
    changed = watcher.changed + sum(remove(name, inventory, screen, log) for name in further)
    if not changed:
        return Ending("ok", f"no host has a cluster {cluster}, changed=0; results stay")
    if further:
        return Ending("ok", f"clusters {', '.join([cluster, *further])} are gone, changed={changed}; results stay")
    return Ending("ok", f"cluster {cluster} is gone, changed={changed}; results stay")


def _on_run_hosts(cluster: str, hosts: tuple[str, ...], inventory: Path, screen: Screen, log: Path) -> Ending:
    """Remove the instance from each of the hosts, side by side. Raises what `run_playbook` raises for the first host that fails."""
    screen.live(f"removing {cluster} from {', '.join(hosts)}")
    with interruptible() as interrupted, ThreadPoolExecutor(len(hosts)) as pool:
        jobs = [pool.submit(remove, cluster, inventory, screen, log, interrupted, host) for host in hosts]
    changed = sum(job.result() for job in jobs)
    if not changed:
        return Ending("ok", f"none of {len(hosts)} hosts has a cluster {cluster}, changed=0; results stay")
    return Ending("ok", f"cluster {cluster} is gone from {len(hosts)} hosts, changed={changed}; results stay")

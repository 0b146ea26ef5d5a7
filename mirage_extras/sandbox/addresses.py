"""Where a sandbox on this machine is reached."""

from __future__ import annotations

from mirage.experiment import preflight
from mirage.knobs.knobs import ClusterKnobs
from slurm_mirage.extras.sandbox.addresses import metrics_url, rest_url


def of(cluster: ClusterKnobs) -> str:
    """What a command of make needs to find the sandbox."""
    return "" if cluster.name == "mirage" else f" CLUSTER={cluster.name}"


def in_words(cluster: ClusterKnobs) -> str:
    """The commands and addresses of the sandbox."""
    words = [f"make shell{of(cluster)} USER=anna"]
    if preflight.is_here(cluster):
        directory = preflight.instance_directory(cluster)
        words += [f"{name} {url}" for name, url in (("REST", rest_url(directory)), ("metrics", metrics_url(directory))) if url]
    return ", ".join(words)

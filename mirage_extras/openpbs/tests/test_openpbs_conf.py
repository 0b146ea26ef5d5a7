"""Texts of OpenPBS's configuration files, and the settings that follow the clock."""

from __future__ import annotations

from pathlib import Path

import yaml

from slurm_mirage.extras.openpbs import addresses, clock_settings, conf, datastore
from slurm_mirage.extras.openpbs.node_classes import Nodes, node_classes


def test_sched_config_has_the_configurations_keys_over_the_defaults() -> None:
    text = conf.sched_config({"strict_ordering": True, "smp_cluster_dist": "omit", "job_sort_key": ['"a LOW"', '"b HIGH"']})
    lines = text.splitlines()
    assert "strict_ordering: true all" in lines
    assert [line for line in lines if line.startswith("job_sort_key")] == ['job_sort_key: "a LOW"', 'job_sort_key: "b HIGH"']
    assert not any(line.startswith("smp_cluster_dist") for line in lines)
    assert "preemptive_sched: false all" in lines


def test_no_queue_is_one_for_dedicated_or_prime_time() -> None:
    """Without these prefixes every queue has them, and no job starts."""
    lines = conf.sched_config({}).splitlines()
    prefixes = [
        line.split(": ")[1] for line in lines if line.startswith(("dedicated_prefix", "primetime_prefix", "nonprimetime_prefix"))
    ]
    assert len(prefixes) == 3
    assert all(prefix and not prefix[0].isalpha() for prefix in prefixes)


def test_guards_are_multiplied_by_the_speed_and_never_made_smaller() -> None:
    assert clock_settings.server_settings(1) == clock_settings.server_settings(0.5)
    assert clock_settings.server_settings(20)["node_fail_requeue"] == 20 * 310
    assert clock_settings.server_settings(20)["job_requeue_timeout"] == "00:15:00"
    assert clock_settings.scheduler_settings(100) == {"sched_cycle_length": "33:20:00"}
    assert clock_settings.mom_settings(20)["max_poll_downtime"] == 6000


def test_an_ended_job_is_remembered_for_an_hour_and_five_real_minutes() -> None:
    assert clock_settings.server_settings(1)["job_history_duration"] == "01:00:00"
    assert clock_settings.server_settings(100)["job_history_duration"] == "08:20:00"


def test_nodes_of_several_classes_are_numbered_on() -> None:
    """A node's number gives its address, so that the numbers of the classes go on, whatever their prefixes."""
    classes = node_classes([{"count": 2, "cpus": 4}, {"count": 1, "cpus": 8, "prefix": "fat"}])
    assert classes == [Nodes("n", 1, 2, 4), Nodes("fat", 3, 1, 8)]
    assert [list(item.numbered()) for item in classes] == [[("n1", 1), ("n2", 2)], [("fat3", 3)]]


def test_fair_share_counts_processor_seconds_of_accounts_that_no_file_names() -> None:
    """Jobs that only sleep use no processor time (OpenPBS's default), and unknown users have no share by default."""
    settings = yaml.safe_load((Path(__file__).parents[1] / "configs/pbs-fairshare.yml").read_text())["settings"]
    lines = conf.sched_config(settings).splitlines()
    wanted = {"fair_share: true all", "fairshare_usage_res: ncpus*walltime", "fairshare_entity: Account_Name", "unknown_shares: 1"}
    assert wanted <= set(lines)


def test_nobody_is_trusted_by_the_database() -> None:
    methods = [line.split()[-1] for line in datastore.pg_hba_conf().splitlines()]
    assert methods == ["peer", "scram-sha-256"]
    assert "unix_socket_directories = '.'\n" in datastore.postgresql_conf()


def test_a_node_knows_the_addresses_of_all_others_before_pbs_server_tells_it_any() -> None:
    """pbs_mom refuses a job from an address that it does not know. Each address that it adds would be a line of its log."""
    lines = conf.mom_config(Path("/home"), 1.0).splitlines()
    known = [line.split()[1] for line in lines if line.startswith("$clienthost ")]
    assert {addresses.HEAD, *(addresses.node_address(number) for number in range(addresses.MOST_NODES + 1))} == set(known)
    quiet, events = (lines.index(f"$logevent {mask}") for mask in ("0x21", "0x23"))
    places = [place for place, line in enumerate(lines) if line.startswith("$clienthost ")]
    assert quiet < min(places) and max(places) < events

"""Files that roles write from templates: a path or a name is one value, whatever is in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FOLDER = """/var/lib/a b"c'd%h$HOME\\e#f;g=\u2028\u00e4"""
"""A folder whose name has all that systemd and YAML take for something else; a line break is in no path of a role."""
VARIABLES = {
    "emulated_nodes_directory": f"{FOLDER}/mirage",
    "firewall_instance": "mirage",
    "firewall_directory": FOLDER,
    "_firewall_nftables_file": f"{FOLDER}/etc/firewall.nft",
    "_firewall_table": "slurm_mirage_mirage",
    "_firewall_unit": "slurm-firewall-mirage.service",
    "item": {"name": "a: b # c"},
    "openstack_cluster_user": "x\n    sudo: y",
    "_openstack_cluster_public_key": 'ssh-rsa AAAA "a": #b',
}
TEMPLATES = {
    "farm": "emulated_nodes/templates/slurm-farm@.service.j2",
    "firewall": "firewall/templates/slurm-firewall.service.j2",
    "nftables": "firewall/templates/nftables.service.conf.j2",
    "cloud": "openstack_cluster/templates/user-data.yml.j2",
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'", "s": " "}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files as Ansible writes them."""
    folder = tmp_path_factory.mktemp("templates")
    tasks = [
        {"ansible.builtin.template": {"src": str(ROOT / "roles" / source), "dest": str(folder / name), "mode": "0644"}}
        for name, source in TEMPLATES.items()
    ]
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
    (folder / "play.yml").write_text(yaml.safe_dump(play))
    (folder / "variables.json").write_text(json.dumps(VARIABLES))
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-e", f"@{folder}/variables.json"]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [*command, "-e", f"ansible_python_interpreter={sys.executable}", str(folder / "play.yml")],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: (folder / name).read_text() for name in TEMPLATES}


def words(text: str) -> list[str]:
    """The words of a setting of a unit with quotes, escapes, and %% and $$ for % and $ (systemd.syntax(7), systemd.service(5))."""
    found, word, quote, letters = [], None, "", iter(text)
    for letter in letters:
        if letter == "\\":
            escape = next(letters)
            code = "".join(next(letters) for _ in range(4)) if escape == "u" else ""
            word = (word or "") + (chr(int(code, 16)) if code else _ESCAPES[escape])
        elif letter == quote:
            quote = ""
        elif letter in "\"'" and not quote and word is None:
            quote, word = letter, ""
        elif letter in " \t" and not quote:
            found, word = [*found, *([] if word is None else [word])], None
        else:
            word = (word or "") + letter
    assert not quote
    return [one.replace("%%", "%").replace("$$", "$") for one in [*found, *([] if word is None else [word])]]


def settings(unit: str) -> list[tuple[str, str]]:
    """Key and value of each line that is neither a comment nor a heading."""
    lines = [line for line in unit.split("\n") if line and line[0] not in "#;["]
    assert all(re.match("[A-Za-z]+=", line) for line in lines), unit
    return [(key, value) for key, _, value in (line.partition("=") for line in lines)]


def test_a_path_is_one_word_of_a_unit(written: dict[str, str]) -> None:
    farm = settings(written["farm"])
    assert words(dict(farm)["ExecStart"])[-2:] == ["run", f"{FOLDER}/%i"]
    variables = [word for key, value in farm if key == "Environment" for word in words(value)]
    assert variables == [
        f"PYTHONPATH={FOLDER}/%i/lib", "PYTHONDONTWRITEBYTECODE=1", f"SLURM_MIRAGE_INSTANCE={FOLDER}/%i",
    ]  # fmt: skip
    firewall = dict(settings(written["firewall"]))
    assert words(firewall["ExecStart"]) == ["/usr/sbin/nft", "-f", f"{FOLDER}/etc/firewall.nft"]
    assert words(firewall["RequiresMountsFor"]) == [FOLDER]
    for key, value in settings(written["nftables"]):
        assert key == "Wants" or words(value)[1:] == ["-f", f"{FOLDER}/etc/firewall.nft"]
    assert "%%h" in written["farm"] and "$$HOME" in written["firewall"]


def test_ordinary_lines_of_units_are_what_they_were(written: dict[str, str]) -> None:
    keys = [key for key, _ in settings(written["farm"])]
    assert keys[:5] == ["Description", "After", "Type", "ExecStart", "Environment"] and keys[-1] == "WantedBy"
    assert [key for key, _ in settings(written["firewall"])][-2:] == ["ExecStop", "WantedBy"]
    assert len(settings(written["nftables"])) == 3


def test_names_are_single_values_of_cloud_inits_file(written: dict[str, str]) -> None:
    assert written["cloud"].startswith("#cloud-config\n")
    content = yaml.safe_load(written["cloud"])
    user = content["users"][1]
    assert (content["hostname"], user["name"]) == ("a: b # c", "x\n    sudo: y")
    assert user["sudo"] == "ALL=(ALL) NOPASSWD:ALL"
    assert user["ssh_authorized_keys"] == ['ssh-rsa AAAA "a": #b']

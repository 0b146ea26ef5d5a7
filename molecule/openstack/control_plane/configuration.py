"""Writes the configuration files of the control plane's services, which use sqlite and need no other daemon."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.0.1"
REGION = "RegionOne"
SERVICES = ("keystone", "placement", "glance", "neutron", "nova")
DATABASES = ("keystone", "placement", "glance", "neutron", "nova", "nova_api", "nova_cell0")
# Hypervisor hosts. The scenario also requests one server more than that with anti-affinity, which has to fail.
HOSTS = ("rack1", "rack2", "rack3", "rack4")


@dataclass(frozen=True)
class Plane:
    """Folders, ports and password of a control plane."""

    run: Path
    environment: Path
    ports: dict[str, int]
    password: str

    def url(self, service: str) -> str:
        path = {"keystone": "/v3", "nova": "/v2.1"}.get(service, "")
        return f"http://{ADDRESS}:{self.ports[service]}{path}"

    def database(self, name: str) -> str:
        return f"sqlite:///{self.run}/db/{name}.db?timeout=60"

    def file(self, service: str) -> Path:
        return self.run / "etc" / service / {"glance": "glance-api.conf"}.get(service, f"{service}.conf")


def _user(plane: Plane, section: str, name: str, more: str = "") -> str:
    """Return a section with the keystone credentials of the user `name`."""
    return f"""
[{section}]
auth_type = password
auth_url = {plane.url("keystone")}
username = {name}
password = {plane.password}
project_name = service
user_domain_id = default
project_domain_id = default
{more}
"""


def _tokens(plane: Plane, name: str) -> str:
    """Return the section with which a service validates tokens."""
    return _user(
        plane, "keystone_authtoken", name, f"www_authenticate_uri = {plane.url('keystone')}\nservice_token_roles_required = true"
    )


def _client(plane: Plane, name: str, of: str) -> str:
    """Return the section with which the service `of` connects to the service `name`."""
    return _user(plane, name, of, f"region_name = {REGION}")


def _keystone(plane: Plane) -> str:
    return f"""
[DEFAULT]
log_file = {plane.run}/log/keystone.log
[database]
connection = {plane.database("keystone")}
sqlite_synchronous = false
[fernet_tokens]
key_repository = {plane.run}/fernet
[credential]
key_repository = {plane.run}/credential
[cache]
enabled = true
backend = dogpile.cache.memory
[identity]
password_hash_rounds = 4
"""


def _placement(plane: Plane) -> str:
    return f"""
[DEFAULT]
log_file = {plane.run}/log/placement.log
[api]
auth_strategy = keystone
[placement_database]
connection = {plane.database("placement")}
sqlite_synchronous = false
sync_on_startup = true
{_tokens(plane, "placement")}
"""


def _glance(plane: Plane) -> str:
    return f"""
[DEFAULT]
log_file = {plane.run}/log/glance.log
enabled_backends = file:file
transport_url = fake://
[database]
connection = {plane.database("glance")}
sqlite_synchronous = false
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = {plane.run}/images
[paste_deploy]
flavor = keystone
config_file = {plane.environment}/etc/glance/glance-api-paste.ini
[oslo_concurrency]
lock_path = {plane.run}/lock
[os_glance_staging_store]
filesystem_store_datadir = {plane.run}/images/staging
[os_glance_tasks_store]
filesystem_store_datadir = {plane.run}/images/tasks
{_tokens(plane, "glance")}
"""


def _neutron(plane: Plane) -> str:
    # The openvswitch driver binds a port on a host if the table of agents has an agent of that host. neutron notifies nova of a
    # server's floating IP, which nova lists among the server's addresses.
    return f"""
[DEFAULT]
log_file = {plane.run}/log/neutron.log
state_path = {plane.run}/state
api_paste_config = {plane.environment}/etc/neutron/api-paste.ini
core_plugin = ml2
service_plugins = router
transport_url = fake://
auth_strategy = keystone
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = true
dhcp_agent_notification = false
[database]
connection = {plane.database("neutron")}
sqlite_synchronous = false
[oslo_concurrency]
lock_path = {plane.run}/lock
[ml2]
type_drivers = flat,vxlan
tenant_network_types = vxlan
project_network_types = vxlan
mechanism_drivers = openvswitch
extension_drivers = port_security
[ml2_type_flat]
flat_networks = physnet1
[ml2_type_vxlan]
vni_ranges = 1:1000
[securitygroup]
enable_security_group = true
firewall_driver = openvswitch
{_tokens(plane, "neutron")}
{_client(plane, "nova", "nova")}
{_client(plane, "placement", "placement")}
"""


def _nova(plane: Plane) -> str:
    # Ports never become active without an agent, so nova must not wait for them. sqlite allows one concurrent build.
    service_user = _user(plane, "service_user", "nova", "send_service_user_token = true")
    return f"""
[DEFAULT]
state_path = {plane.run}/state
host = {HOSTS[0]}
my_ip = {ADDRESS}
compute_driver = fake.FakeDriver
transport_url = fake://
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
enabled_apis = osapi_compute
log_file = {plane.run}/log/nova.log
periodic_fuzzy_delay = 0
max_concurrent_builds = 1
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = {plane.environment}/etc/nova/api-paste.ini
[api_database]
connection = {plane.database("nova_api")}
sqlite_synchronous = false
[database]
connection = {plane.database("nova")}
sqlite_synchronous = false
[oslo_concurrency]
lock_path = {plane.run}/lock
[conductor]
workers = 1
[scheduler]
workers = 1
[vnc]
enabled = false
[glance]
api_servers = {plane.url("glance")}
{_tokens(plane, "nova")}
{_client(plane, "placement", "placement")}
{_client(plane, "neutron", "neutron")}
{service_user}
"""


TEXTS = {"keystone": _keystone, "placement": _placement, "glance": _glance, "neutron": _neutron, "nova": _nova}


def write(plane: Plane) -> None:
    """Create the control plane's folders and write all configuration files, with mode 0600 because they hold a password."""
    for name in ("db", "log", "images", "state", "lock", "fernet", "credential", "processes"):
        (plane.run / name).mkdir(mode=0o700, parents=True)
    for service in SERVICES:
        file = plane.file(service)
        file.parent.mkdir(parents=True)
        file.touch(mode=0o600)
        file.write_text(TEXTS[service](plane))
    # nova searches its paste file in the folder of its configuration.
    paste = plane.environment / "etc/nova/api-paste.ini"
    (plane.file("nova").parent / "api-paste.ini").write_text(paste.read_text())

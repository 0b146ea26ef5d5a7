"""No time passes while the kernel waits for an acknowledgement, until it has opened or refused a connection, or for names."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .clocked import Under
from .event_instance import PYTHON, Instance

PROGRAM = """
import socket
from socket import AF_INET, AF_INET6, AF_UNIX, IPPROTO_TCP, SOCK_DGRAM, SOCK_STREAM, TCP_NODELAY

def at_once(one):
    return one.getsockopt(IPPROTO_TCP, TCP_NODELAY)

listening = socket.create_server(("127.0.0.1", 0))
client = socket.socket(AF_INET, SOCK_STREAM)
client.connect(listening.getsockname())
accepted, _ = listening.accept()
print(at_once(client), at_once(accepted), at_once(socket.socket(AF_INET6, SOCK_STREAM)))
socket.socket(AF_UNIX, SOCK_STREAM)
socket.socket(AF_INET, SOCK_DGRAM)
try:
    socket.socket(AF_INET, 77)
except OSError as error:
    print(error.errno)
"""


def test_both_sides_of_a_connection_send_at_once(under: Callable[..., Under]) -> None:
    # An error is the C library's: 22 is EINVAL.
    assert under(100).run(sys.executable, "-c", PROGRAM).splitlines() == ["1 1 1", "22"]


REUSE_OF_A_PORT = """
import select, socket, time

def on(port):
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", port))
    return one

listening = on(0)
listening.listen()
first = on(0)
first.connect(listening.getsockname())
accepted, (_, port) = listening.accept()
address = listening.getsockname()
for each in (accepted, first, listening):  # the listener's side closes first, so the kernel remembers the port there
    each.close()
second = on(port)
second.setblocking(False)
before = time.time_ns()
second.connect_ex(address)
waiting = select.poll()
waiting.register(second, select.POLLOUT)
refused = waiting.poll(2000)
print(len(refused), time.time_ns() - before)
"""


def test_no_time_passes_until_the_kernel_refuses_a_connection_from_a_port_that_it_remembers(driven: Instance) -> None:
    """The kernel refuses it when it has asked again, 8 ms later. If the clock jumped meanwhile, the limit of 2 s would be over."""
    assert driven.run(PYTHON, "-c", REUSE_OF_A_PORT).split() == ["1", "0"]


NAMES = """
import socket

def name(address, flags):
    try:
        return socket.getnameinfo((address, 80), flags)
    except socket.gaierror as error:
        return error.errno == socket.EAI_NONAME

for address in ("127.0.0.2", "127.250.3.4"):
    print(name(address, socket.NI_NAMEREQD | socket.NI_NUMERICSERV), name(address, socket.NI_NUMERICSERV))
print(name("127.0.0.1", socket.NI_NUMERICHOST | socket.NI_NUMERICSERV))
"""


def test_no_name_server_is_asked_for_loopback_addresses(under: Callable[..., Under]) -> None:
    # Without a network a question to a name server fails with another error: EAI_AGAIN.
    answers = under(100).run("unshare", "--map-root-user", "--net", sys.executable, "-c", NAMES)
    assert answers.splitlines() == [
        "True ('127.0.0.2', '80')",
        "True ('127.250.3.4', '80')",
        "('127.0.0.1', '80')",
    ]

"""Connections send short messages at once, so that no time passes while the kernel waits for an acknowledgement."""

from __future__ import annotations

import sys
from collections.abc import Callable

from .clocked import Under

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

"""A filter of system calls (seccomp) that keeps this process from typing into its terminal, where a shell of root reads next.

TIOCSTI puts a character into the input of the process's terminal, and TIOCLINUX can paste on a virtual console. Kernels before 6.2
allow the first to all, later ones if the setting dev.tty.legacy_tiocsti says so.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

_SET_SECCOMP, _MODE_FILTER = 22, 2
# The number of ioctl(2), and the architecture as seccomp names it (AUDIT_ARCH), by uname's name of the machine.
_MACHINES = {"x86_64": (16, 0xC000003E), "aarch64": (29, 0xC00000B7)}
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF
_NUMBER, _ARCHITECTURE, _SECOND_ARGUMENT = 0, 4, 24  # offsets in struct seccomp_data
_OTHER_ABI = 0x40000000  # bit of x32's numbers
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forbid() -> None:
    """Refuse both for ever, for this process and its children, which cannot gain rights (PR_SET_NO_NEW_PRIVS). Does nothing on
    another machine than the two above, and without seccomp."""
    machine = os.uname().machine
    if machine not in _MACHINES:
        return
    ioctl, architecture = _MACHINES[machine]
    # Jumps count the instructions that are skipped, if the comparison holds and if it does not.
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, 7, architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_IF_AT_LEAST, 5, 0, _OTHER_ABI),
        (_JUMP_IF_EQUAL, 0, 3, ioctl),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_JUMP_IF_EQUAL, 2, 0, _TIOCSTI),
        (_JUMP_IF_EQUAL, 1, 0, _TIOCLINUX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    code = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    ctypes.CDLL(None).prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(_Program(len(instructions), code)), 0, 0)

"""A seccomp filter for sockets, where an engine has no rule for them.

Landlock has none for UDP and for Unix sockets with a path. With bubblewrap, abstract Unix sockets belong to the network.

A Unix socket of the user's session (D-Bus, Docker) starts programs outside of the sandbox on request, so it must be out of reach.
Connected pairs of sockets stay allowed: event loops and pipes to children need them.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import socket
import struct
import sys
from typing import Final, NamedTuple

assert sys.platform == "linux"  # no other system imports this

# Instructions of classic BPF, and where seccomp_data has the number of the call, the architecture and the arguments.
_LOAD: Final = 0x20
_AND: Final = 0x54
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000
# The 32-bit calls of x86-64 have numbers from here on.
_X32: Final = 0x40000000
# A ring of asynchronous calls opens sockets without a call that a filter sees.
_IO_URING_SETUP: Final = 425
_SOCKET_TYPE: Final = 0xF
_PR_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2


class _Architecture(NamedTuple):
    """The number of an architecture, and those of two calls."""

    audit: int
    socket: int
    socketpair: int


_ARCHITECTURES: Final = {"x86_64": _Architecture(0xC000003E, 41, 53), "aarch64": _Architecture(0xC00000B7, 198, 199)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def deny_sockets(*, except_internet: bool) -> None:
    """Refuse new sockets in this process and all that it will start; the program gets ``PermissionError``.

    Raises:
        OSError: The kernel does not accept the filter, or it does not exist for this machine.
    """
    code = socket_filter(except_internet=except_internet)
    program = _Program(len(code) // 8, code)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refused the filter for sockets")


def socket_filter(*, except_internet: bool) -> bytes:
    """Return the filter for this machine, with or without sockets of the internet.

    Raises:
        OSError: There is none for this machine.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"there is no filter for sockets on {machine}")
    families = (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK) if except_internet else ()
    return filter_code(_ARCHITECTURES[machine], families)


def filter_code(machine: _Architecture, families: tuple[int, ...]) -> bytes:
    """Return the filter. It allows every call but those that make a socket of another family."""
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EACCES)
    allow = (_RETURN, 0, 0, _ALLOW)
    check_family = [(_LOAD, 0, 0, _FIRST_ARGUMENT)]
    check_family += [(_IF_EQUAL, len(families) - number, 0, family) for number, family in enumerate(families)]
    check_family += [refuse, allow]
    # A pair of datagram sockets can be connected to another address later.
    check_pair = [(_LOAD, 0, 0, _SECOND_ARGUMENT), (_AND, 0, 0, _SOCKET_TYPE), (_IF_EQUAL, 0, 1, socket.SOCK_DGRAM), refuse, allow]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_IF_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_IF_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_IF_EQUAL, 2, 0, machine.socket),
        (_IF_EQUAL, 1 + len(check_family), 0, machine.socketpair),
        allow,
        *check_family,
        *check_pair,
    ]
    return b"".join(struct.pack("=HBBI", *each) for each in code)

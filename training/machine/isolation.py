"""A network of a run's own, which holds loopback and nothing else. Standard library only; Linux only.

TensorFlow's gRPC server, which runs the graphs it is sent, listens on every address whatever TF_CONFIG says, and so do
some of Ray's. In a network namespace there is no address that another machine could reach.

    python -m training.machine.isolation

prints why this system does not allow that, or nothing.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
"""Flags of unshare(2): <linux/sched.h>."""
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP, IFF_LOOPBACK = 0x1, 0x8
"""Flags of netdevice(7): <linux/sockios.h> and <linux/if.h>."""
CAPABILITY_VERSION = 0x20080522
"""Version 3 of capset(2): <linux/capability.h>."""
_DONE = b"done"


def enter() -> str | None:
    """Give this process, and all processes that it starts later, a network of its own. Return None, or the reason why
    the system does not allow it.

    If it is not allowed, or if no other machine can be reached anyway, nothing changes. User and group stay the same.
    Whatever has to be downloaded must be here before. Threads would keep the old network, so a process with several
    threads is refused a network of its own.
    """
    if is_alone():
        return None
    reason = refusal()
    if reason is None and len(list(Path("/proc/self/task").iterdir())) > 1:
        reason = "this process has threads already"
    if reason is None:
        _leave_network()
    return reason


def is_alone() -> bool:
    """Return whether loopback is the only network interface that is up; False on other systems than Linux."""
    if not sys.platform.startswith("linux"):
        return False
    return not any(_leads_out(name) for _, name in socket.if_nameindex())


def _leads_out(interface: str) -> bool:
    try:
        flags = _flags(interface)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise
        return False  # gone since it was listed, as a container's is when that ends
    return bool(flags & IFF_UP) and not flags & IFF_LOOPBACK


def refusal() -> str | None:
    """Return why a process on this system cannot have a network of its own; None if it can."""
    if not sys.platform.startswith("linux"):
        return f"{'macOS' if sys.platform == 'darwin' else sys.platform} has no network namespaces"
    return None if is_alone() else _try_in_child()


def _try_in_child() -> str | None:
    """Try to leave the network in a child process, which ends then, because an attempt that fails half way cannot be
    undone. Return the reason if it fails, else None."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            _leave_network()
            os.write(writing, _DONE)
        except OSError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return None if answer == _DONE else f"this system refuses a network namespace ({answer.decode() or 'no answer'})"


def _leave_network() -> None:
    """Enter a new network namespace. A process without the right to do that enters it inside a new user namespace,
    where everybody has the right. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    try:
        _unshare(CLONE_NEWNET)
        _bring_up(b"lo")
    except PermissionError:  # without CAP_SYS_ADMIN at the first, without CAP_NET_ADMIN at the second
        _unshare(CLONE_NEWUSER | CLONE_NEWNET)
        # user_namespaces(7): who may not write another map may write this one, once setgroups(2) is given up
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        _bring_up(b"lo")
        _drop_capabilities()


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise _system_error()


def _bring_up(interface: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        flags = _flags(interface.decode()) | IFF_UP
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", interface, flags))


def _flags(interface: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sh14x", interface.encode(), 0))
    return int(struct.unpack("16sh14x", answer)[1]) & 0xFFFF


def _drop_capabilities() -> None:
    """Drop the capabilities of the new user namespace, so that a run has no more rights than its user."""
    header, none = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(ctypes.byref(header), ctypes.byref(none)) != 0:
        raise _system_error()


def _system_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


if __name__ == "__main__":
    print(refusal() or "", end="")

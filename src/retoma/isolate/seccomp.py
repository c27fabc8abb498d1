"""A seccomp filter: system calls that no document reader needs are refused in this process.

The numbers are those of x86-64 and 64-bit ARM; a minus marks a call that the machine does not have. A call newer than
this table is answered as unknown, as older kernels do, and libraries do without it.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from retoma.isolate.kernel import MACHINE, syscall

TABLE = """
socket 41 198, connect 42 203, bind 49 200, listen 50 201, accept 43 202, accept4 288 242,
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, kcmp 312 272,
process_mrelease 448 448, pidfd_getfd 438 438, perf_event_open 298 241, setsid 112 157, setpgid 109 154,
migrate_pages 256 238, move_pages 279 239, sched_setparam 142 118, sched_setscheduler 144 119, sched_setattr 314 274,
ioprio_set 251 30, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, lchown 94 -,
fchown 93 55, fchownat 260 54, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, removexattr 197 14,
lremovexattr 198 15, fremovexattr 199 16, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88,
truncate 76 45, name_to_handle_at 303 264, open_by_handle_at 304 265, fanotify_init 300 262,
mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51, move_mount 429 429, open_tree 428 428,
fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442, unshare 272 97, setns 308 268,
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semctl 66 191, semop 65 193, semtimedop 220 192,
msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181,
bpf 321 280, keyctl 250 219, add_key 248 217, request_key 249 218, io_uring_setup 425 425, io_uring_enter 426 426,
io_uring_register 427 427, userfaultfd 323 282, init_module 175 105, finit_module 313 273, delete_module 176 106,
kexec_load 246 104, kexec_file_load 320 294, reboot 169 142, swapon 167 224, swapoff 168 225, acct 163 89,
quotactl 179 60, quotactl_fd 443 443, syslog 103 116, settimeofday 164 170, clock_settime 227 112, adjtimex 159 171,
clock_adjtime 305 266, sethostname 170 161, setdomainname 171 162, personality 135 92, vhangup 153 58, iopl 172 -,
ioperm 173 -, modify_ldt 154 -, uselib 134 -, nfsservctl 180 42, lookup_dcookie 212 18
"""
WITH_RULES = """
clone 56 220, clone3 435 435, socketpair 53 199, prlimit64 302 261, setpriority 141 140, sched_setaffinity 203 122,
ioctl 16 29, fcntl 72 25, kill 62 129, tgkill 234 131, tkill 200 130, rt_sigqueueinfo 129 138,
rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424
"""
_NEWEST = 462


class _Machine(NamedTuple):
    audit: int
    column: int
    seccomp: int


MACHINES = {"x86_64": _Machine(0xC000003E, 0, 317), "aarch64": _Machine(0xC00000B7, 1, 277)}

_SET_FILTER, _ALL_THREADS = 1, 1
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER, _AUDIT, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NAMESPACES = 0x7E020000  # namespace flags of clone: mount, cgroup, uts, ipc, user, pid, net
_UNIX, _STREAM, _KIND = 1, 1, 0xF
_TYPE_INTO_TERMINAL = (("ioctl", 0x5412), ("ioctl", 0x541C))
# The owner of a file or a socket gets a signal when data arrives, and any process could be made the owner.
_GIVE_AWAY = (("fcntl", 8), ("fcntl", 15), ("ioctl", 0x8901), ("ioctl", 0x8902))

Code = list[tuple[int, int, int, int]]


def install(*, own: int | None) -> None:
    """Install the filter in all threads. *own*, a process, is then the only one that may be sent signals; None leaves
    signals to Landlock. Raises OSError where the kernel has no filters, or the machine is unknown.
    """
    machine = MACHINES.get(MACHINE)
    if machine is None:
        raise OSError(errno.ENOSYS, f"no table of system calls for {MACHINE}")
    code = program(machine, own)
    words = b"".join(struct.pack("HBBI", *each) for each in code)
    filters = ctypes.create_string_buffer(words, len(words))
    whole = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filters))
    syscall(machine.seccomp, _SET_FILTER, _ALL_THREADS, ctypes.create_string_buffer(whole, len(whole)))


def program(machine: _Machine, own: int | None) -> Code:
    ruled = dict(numbers(WITH_RULES, machine.column))
    code: Code = [
        (_LOAD, 0, 0, _AUDIT),
        (_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _NEWEST + 1),  # also those of x32 programs: the same calls under other numbers
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    code += _refused(ruled["clone3"], errno.ENOSYS)  # its flags are in memory; libraries fall back to clone
    for _, number in numbers(TABLE, machine.column):
        code += _refused(number)
    code += _ruled(ruled["clone"], [(_LOAD, 0, 0, _argument(0)), (_ANY_BIT, 1, 0, _NAMESPACES)])
    # Only a connected pair of streams; a datagram socket could send to any address.
    pair = [(_LOAD, 0, 0, _argument(0)), (_EQUAL, 0, 4, _UNIX), (_LOAD, 0, 0, _argument(1)), (_AND, 0, 0, _KIND)]
    code += _ruled(ruled["socketpair"], [*pair, (_EQUAL, 0, 1, _STREAM)])
    for name in ("prlimit64", "sched_setaffinity"):
        code += _ruled(ruled[name], _only(0, 0))  # only for the caller itself
    # Only the caller itself: zero also means the caller's user, with all its processes.
    code += _ruled(ruled["setpriority"], [(_LOAD, 0, 0, _argument(0)), (_EQUAL, 0, 3, 0), *_only(1, 0)])
    for name, command in (*_TYPE_INTO_TERMINAL, *_GIVE_AWAY):
        code += [(_EQUAL, 0, 4, ruled[name]), (_LOAD, 0, 0, _argument(1)), (_EQUAL, 0, 1, command)]
        code += [(_RETURN, 0, 0, _ERROR | errno.EPERM), (_LOAD, 0, 0, _NUMBER)]
    if own is not None:
        for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            code += _ruled(ruled[name], _only(0, own))
        code += _refused(ruled["tkill"]) + _refused(ruled["pidfd_send_signal"])
    return [*code, (_RETURN, 0, 0, _ALLOW)]


def numbers(table: str, column: int) -> Iterable[tuple[str, int]]:
    """The calls of *table* that the machine in *column* has, by name."""
    for line in table.split(","):
        name, *found = line.split()
        if found[column] != "-":
            yield name, int(found[column])


def _refused(number: int, error: int = errno.EPERM) -> Code:
    return [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | error)]


def _ruled(number: int, looks: Sequence[tuple[int, int, int, int]]) -> Code:
    """Allowed when *looks* fall through to their end, refused when the last one skips one further."""
    ends = [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    return [(_EQUAL, 0, len(looks) + 2, number), *looks, *ends]


def _only(index: int, value: int) -> Code:
    return [(_LOAD, 0, 0, _argument(index)), (_EQUAL, 0, 1, value)]


def _argument(index: int) -> int:
    """The offset of the lower half of an argument; both machines store that half first."""
    return _ARGUMENTS + 8 * index

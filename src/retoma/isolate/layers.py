"""The layers of the sandbox."""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """One protection of the sandbox, which holds whatever runs inside."""

    PRIVILEGES = "privileges"
    """The child gains no privileges and holds no capability; a child of root becomes another user, where
    that user can read Python.
    """
    LIMITS = "limits"
    """Memory, processor time, open files, size of files and core files have limits that it cannot raise."""
    ENVIRONMENT = "environment"
    """The child gets the environment variables of a short list, and no others."""
    FILES = "files"
    """The child can open its own folder, the files it was given, Python, its modules and the
    system's programs (Landlock).
    """
    NETWORK = "network"
    """The child can open no connection: it can create no socket (seccomp), and has no network (a
    namespace of its own).
    """
    CALLS = "system calls"
    """The child cannot inspect, signal or slow down other processes, leave its group, or
    change file modes (seccomp).
    """
    PARENT = "parent"
    """The child cannot read the memory and the environment of the process that started it."""
    PROCESSES = "processes"
    """The number of its processes and threads is limited (in a user namespace of its own, and not as root)."""


REQUIRED = tuple(each for each in Layer if each is not Layer.PROCESSES)
"""What RETOMA_SANDBOX=require demands; the processes of root cannot be limited at all."""

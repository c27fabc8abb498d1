"""What keeps a child in, layer by layer."""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """One thing that keeps a child in, whatever runs inside."""

    PRIVILEGES = "privileges"
    """It gains none and holds no capability; of root it is another user, where that user can read Python."""
    LIMITS = "limits"
    """Memory, processor time, open files, size of files and core files have limits that it cannot raise."""
    ENVIRONMENT = "environment"
    """It is told the variables of a short list, and no others."""
    FILES = "files"
    """It opens its own folder, the files it was given, Python, its modules and the system's programs (Landlock)."""
    NETWORK = "network"
    """It opens no connection: no socket can be made (seccomp), and there is no network (a namespace of its own)."""
    CALLS = "system calls"
    """It cannot look into other processes, signal or slow them, leave its group, change rights of files (seccomp)."""
    PARENT = "parent"
    """It cannot read the memory and the environment of the process that started it."""
    PROCESSES = "processes"
    """How many processes and threads it may have is limited (in a user namespace of its own, and not as root)."""


REQUIRED = tuple(each for each in Layer if each is not Layer.PROCESSES)
"""What RETOMA_SANDBOX=require asks for; processes of root cannot be counted at all."""

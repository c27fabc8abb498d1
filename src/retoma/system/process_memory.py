"""How much memory a process uses, as far as the system says it."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEGABYTE = 1024 * 1024


def memory_of(pid: int) -> float | None:
    """The resident memory of process *pid* in megabytes; None when it is gone, or the system does not tell."""
    try:
        resident = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(resident) * _PAGE / _MEGABYTE

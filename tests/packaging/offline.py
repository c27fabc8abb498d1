"""Run a command in a network namespace of its own: offline.py COMMAND ... Its loopback is switched on, for the embedded
PostgreSQL listens there, and there is no other interface.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

_SET_FLAGS = 0x8914
_UP_AND_RUNNING = 0x1 | 0x40

if __name__ == "__main__":
    interfaces = [name for _, name in socket.if_nameindex()]
    if interfaces != ["lo"]:
        sys.exit(f"This namespace has interfaces: {interfaces}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        fcntl.ioctl(asking, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))
    os.execvp(sys.argv[1], sys.argv[1:])

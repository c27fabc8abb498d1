"""S3 in memory, by moto, in a process of its own."""

from __future__ import annotations

import json
import os
import time

from moto.server import ThreadedMotoServer

if __name__ == "__main__":
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(json.dumps({"port": server.get_host_and_port()[1]}), flush=True)  # noqa: T201
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)

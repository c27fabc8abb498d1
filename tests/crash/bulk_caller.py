"""A process that carries out an operation on many jobs, in small pieces, and says after each how far it is."""

from __future__ import annotations

import os
import sys

from retoma.commands import bulk
from retoma.sync import Retoma

if __name__ == "__main__":
    url, operation = sys.argv[1:]
    bulk._AT_A_TIME = 7
    with Retoma(url) as app:
        for now in app.batches.carry_out(int(operation)):
            os.write(1, f"{now.done}\n".encode())

"""A program that loads in a supervisor and not in its executors."""

import sys

from crash_app import app as app  # noqa: PLC0414

if "-c" in sys.argv and not sys.argv[1:]:
    raise RuntimeError("only its first process loads it")

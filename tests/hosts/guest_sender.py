"""Sends quotes to their task once, and then asks for a recovery every second, as Celery beat would."""

from __future__ import annotations

import sys
import time

from guest_program import process, recover

for quote in sys.argv[1:]:
    process.delay(int(quote))
while True:
    time.sleep(1)
    recover.delay()

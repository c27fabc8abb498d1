"""Quotes from a market that bills: every request is a line in a file, whoever is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from crash_app import FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.ports import Market

BILL = Bill(Path(FILE).parent / "bill.log", Path(FILE).parent / "halt")

app = Retoma(extensions=[QUOTES], providers={Market: a_market(BILL, official=["99.00"])})

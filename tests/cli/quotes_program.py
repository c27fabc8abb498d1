"""Quotes from a small market that bills; how long a page takes is in the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.ports import Market

BILL = Bill(Path(os.environ.get("QUOTES_BILL", "bill.log")))

app = Retoma(extensions=[QUOTES], providers={Market: a_market(BILL)})

"""Quotes from a market that bills: every request is a line in a file, whoever is killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from crash_app import FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.ports import Market
from retoma.providers import BlobStore, Chat
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.folder import FolderBlobs

BILL = Bill(Path(FILE).parent / "bill.log", Path(FILE).parent / "halt")

providers: dict[type, object] = {Market: a_market(BILL, official=["99.00"])}
if url := os.environ.get("VISION_URL"):  # a model that sees
    providers[Chat] = AnthropicChat(key="secret", model="m", base_url=url)
if folder := os.environ.get("VISION_BLOBS"):  # the store of what it is shown, and of what is written
    providers[BlobStore] = FolderBlobs(Path(folder))

app = Retoma(extensions=[QUOTES], providers=providers)

"""Quotes from a market that bills: every request is a line in a file, whoever is killed."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

from crash_app import FILE

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, Pages, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.ports import Market, Picture
from retoma.providers import BlobStore, Chat
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.folder import FolderBlobs

BILL = Bill(Path(FILE).parent / "bill.log", Path(FILE).parent / "halt")


class Photographed(Pages):
    """Takes pictures of kept pages, too."""

    async def picture(self, html: bytes) -> Picture:
        sha = hashlib.sha256(html).hexdigest()
        await self.bill.paid("picture", sha)
        return Picture(blob=f"pictures/{sha}", sha256=sha)


providers: dict[type, object] = {Market: replace(a_market(BILL, official=["99.00"]), pages=Photographed(BILL))}
if url := os.environ.get("VISION_URL"):  # a model that sees
    providers[Chat] = AnthropicChat(key="secret", model="m", base_url=url)
if folder := os.environ.get("VISION_BLOBS"):  # the store of what it is shown, and of what is written
    providers[BlobStore] = FolderBlobs(Path(folder))

app = Retoma(extensions=[QUOTES], providers=providers)

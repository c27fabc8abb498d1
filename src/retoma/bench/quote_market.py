"""The market of the measured quotes: an analyst and shops that take their time, and write every request down.

A request is one line of a file that is only ever added to, written before the provider begins to think: whoever is
killed, what was paid stands there. Some items bring down the process that opens a page for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from retoma import Retoma
from retoma.pipelines.quotes.extension import QUOTES
from retoma.pipelines.quotes.ports import Analysis, Evidence, Item, Market, Method, Offer, PageRead, SourceKind
from retoma.providers import Answer, Chat, Offers, PriceSearch, Prompt, Usage
from retoma.providers import Offer as Listed

BILL = "RETOMA_BENCH_BILL"
"""The variable that names the file."""
PATIENCE = "RETOMA_BENCH_LATENCY"
"""The variable that says between how many seconds an answer takes, as in ``0.2-2``."""
POISON = "poison"
"""An item with this word brings down who opens a page for it."""
OFFERS = 5
_CENTS = 100


class Paid(NamedTuple):
    """One line of the file: a request that came in, and how long its answer takes."""

    item: str
    request: str
    seconds: float


class Bill:
    """What the provider was asked, in the order in which it came."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, paid: Paid) -> None:
        """Write a request down; whole lines of several processes never mix."""
        out = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(out, f"{json.dumps(paid)}\n".encode())
        finally:
            os.close(out)

    def lines(self) -> list[Paid]:
        """Every request so far."""
        if not self.file.exists():
            return []
        return [Paid(*json.loads(line)) for line in self.file.read_text(encoding="utf-8").splitlines()]


class Counter:
    """Where requests come in: each is billed, and then answered after a while that is its own and always the same."""

    def __init__(self, bill: Bill, least: float, most: float) -> None:
        self.bill, self._least, self._most = bill, least, most

    async def serve(self, item: str, request: str) -> None:
        """Bill a request, and think."""
        share = int.from_bytes(hashlib.sha256(request.encode()).digest()[:4]) / 2**32
        seconds = round(self._least + share * (self._most - self._least), 3)
        self.bill.add(Paid(item, request, seconds))
        await asyncio.sleep(seconds)


class Analyst:
    """A model that understands items, one request each."""

    provider, model = "bench", "analyst"

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002 - as the protocol has it
        """What the item between the marks is."""
        _, _, after = prompt.messages[-1].content.partition("<item>")
        item, _, _ = after.rpartition("</item>")
        await self._counter.serve(item, f"analysis|{item}")
        told = {"tipo_processamento": "GOOGLE_SHOPPING", "nome_canonico": item, "query_principal": item}
        text = json.dumps(told)
        return Answer(raw=text, text=text, model=self.model, usage=Usage(input_tokens=500, output_tokens=100))


class Rules:
    """What a machine without a model would say; nobody asks it here."""

    async def understand(self, item: Item) -> Analysis:
        """The item by its own words."""
        return Analysis(tipo_processamento="GOOGLE_SHOPPING", nome_canonico=item.text, query_principal=item.text)


class Product:
    """The second request to the shops: where an offer is sold."""

    provider, model = "bench-shops", "product"

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        """The page of the offer that *query* names."""
        item, place = query.rsplit("|", 1)
        await self._counter.serve(item, f"product|{query}")
        slug = re.sub(r"\W+", "-", item)
        link = f"https://loja{place}.com.br/{slug}"
        offer = Listed(title=item, price=price_of(item, int(place)), currency="BRL", source="bench", link=link)
        return Offers(offers=[offer], raw=json.dumps({"link": link}), usage=Usage(units=1))


class Shops:
    """A paid search that lists a few offers of about the same price, whose pages a second request tells."""

    provider, model = "bench-shops", "search"
    kind = SourceKind.SHOP
    method = Method.GOOGLE_SHOPPING
    opens_pages = True

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self.details: PriceSearch | None = Product(counter)

    def query_for(self, analysis: Analysis) -> str | None:
        """Its own words."""
        return analysis.query_principal

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        """The offers for *query*."""
        await self._counter.serve(query, f"search|{query}")
        return Offers(offers=[], raw=json.dumps(query), usage=Usage(units=1))

    def read(self, found: Offers) -> Sequence[Offer]:
        """The offers of an answer."""
        item = json.loads(found.raw)
        return [
            Offer(
                title=item,
                price=price_of(item, place),
                source=self.provider,
                key=f"{item}|{place}",
                token=f"{item}|{place}",
            )
            for place in range(OFFERS)
        ]


class Pages:
    """The pages of the shops: free, and read at once."""

    async def read(self, url: str, *, timeout: float) -> PageRead:  # noqa: ARG002 - as the protocol has it
        """The price that the list has said."""
        if POISON in url:
            os.kill(os.getpid(), signal.SIGKILL)
        host, _, slug = url.removeprefix("https://").partition("/")
        price = price_of(slug, int(host.removeprefix("loja").partition(".")[0]))
        evidence = await self.keep(f"<p>{price}</p>", url=url, kind="text/html")
        return PageRead(url=url, domain=host, title=slug, price=price, method=Method.JSONLD, evidence=evidence)

    async def keep(self, content: str, *, url: str, kind: str) -> Evidence:
        """Evidence without a file: what is measured is not the disk."""
        sha256 = hashlib.sha256(content.encode()).hexdigest()
        return Evidence(url=url, sha256=sha256, blob=f"bench/{sha256}", captured_at=datetime.now(UTC), kind=kind)


def price_of(item: str, place: int) -> Decimal:
    """What *item* costs in a shop: other items, other prices; the shops differ by a twentieth at most."""
    number = int(re.sub(r"\D", "", item) or 0)
    return Decimal(10_000 + number % 90_000 + _CENTS * place) / _CENTS


def market() -> dict[type, object]:
    """The providers that the environment describes."""
    least, _, most = os.environ.get(PATIENCE, "0.2-2").partition("-")
    counter = Counter(Bill(Path(os.environ.get(BILL, os.devnull))), float(least), float(most))
    sold = Market(understanding=Rules(), sources=[Shops(counter)], pages=Pages())
    return {Market: sold, Chat: Analyst(counter)}


app = Retoma(extensions=[QUOTES], providers=market())

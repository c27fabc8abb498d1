"""What a person sees on the page of a product: amounts, what is struck out, the headline. One walk, in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lxml import etree, html  # type: ignore[import-untyped]  # it has no types

from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.money import Amount

LONGEST_PAGE = 3_000_000
"""Characters of a page that are read."""
_LONGEST_RUN = 600  # characters of one price element
_MOST_AMOUNTS = 2_000
_SILENT = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "select"})
_STRUCK = frozenset({"del", "s", "strike"})
_BLOCKS = frozenset(
    "address article aside body br dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p "  # noqa: SIM905
    "section table td th tr ul".split()
)
_PRICE = re.compile(r"price|pre[çc]o|valor|cost\b", re.IGNORECASE)
_OLD = re.compile(
    r"(?<![a-z])old|price[_-]?old|list-?price|(?<![a-z])was(?![a-z])|regular-?price|strik|risc|antig"
    r"|from-?price|price-?from|preco-?de\b|original|before",
    re.IGNORECASE,
)
_PARTS = re.compile(r"instal|parcel", re.IGNORECASE)
_ASIDE = re.compile(
    r"related|relacionad|similar|recommend|recomend|carousel|vitrine|shelf|also|veja|frete|shipping|footer|mini-?cart",
    re.IGNORECASE,
)
_CARD = re.compile(
    r"product-?card|product-?item|card-?produto|item-?card|produto-?item|search-?result|vitrine|grid-?item",
    re.IGNORECASE,
)
_HIDDEN = re.compile(r"display\s?:\s?none|visibility\s?:\s?hidden", re.IGNORECASE)
_LINE_THROUGH = re.compile(r"line-through", re.IGNORECASE)
_SOLD_OUT = re.compile(
    r"produto (?:indispon[íi]vel|esgotado)|\besgotado\b|fora de estoque|sem estoque|avise-me quando chegar"
    r"|out of stock|sold out|currently unavailable",
    re.IGNORECASE,
)
_BUY = re.compile(
    r"^\s{0,9}(?:comprar|adicionar ao carrinho|adicionar à sacola|compre agora|buy now|add to cart)", re.IGNORECASE
)
_BLOCKED = re.compile(
    r"access denied|attention required|just a moment|are you a (?:robot|human)|n[ãa]o sou um rob[ôo]|captcha"
    r"|acesso negado|verify you are human|pardon our interruption",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Shown:
    """What the walk found."""

    title: str = ""
    headline: str = ""
    prices: list[Amount] = field(default_factory=list)
    """In elements that are called prices, in order; neither struck out nor in a box of other products."""
    amounts: list[Amount] = field(default_factory=list)
    """Elsewhere in the text."""
    struck: list[Amount] = field(default_factory=list)
    cards: int = 0
    """Boxes of products with a price each."""
    is_sold_out: bool = False
    can_be_bought: bool = False
    is_blocked: bool = False

    def every(self) -> Iterator[Amount]:
        """Every amount that is not struck out."""
        yield from self.prices
        yield from self.amounts


def parse(text: str) -> Any:
    """The tree of a page; None when there is none in it."""
    # lxml refuses a declaration of an encoding in text that is decoded already.
    text = text[:LONGEST_PAGE].replace("\0", "").lstrip("\ufeff \t\r\n")
    if text.startswith("<?xml"):
        text = text.partition("?>")[2]
    try:
        return html.document_fromstring(text, parser=html.HTMLParser(huge_tree=False, remove_comments=True))
    except (etree.ParserError, etree.XMLSyntaxError, ValueError, AssertionError):
        return None


def look(root: Any) -> Shown:
    """What *root* shows to a person."""
    return _Walk().over(root)


@dataclass(slots=True)
class _Open:
    """What the open elements say about the text in them: how many of each kind are open."""

    silent: int = 0
    struck: int = 0
    price: int = 0
    instalment: int = 0
    aside: int = 0
    card: int = 0


class _Walk:
    def __init__(self) -> None:
        self._shown = Shown()
        self._open = _Open()
        self._marks: list[tuple[str, ...]] = []
        self._runs: dict[str, list[str]] = {"text": [], "price": [], "struck": [], "headline": []}
        self._card_has_price = False
        self._length = 0

    def over(self, root: Any) -> Shown:
        found = root.find(".//title")
        self._shown.title = " ".join((found.text or "").split())[:300] if found is not None else ""
        for event, element in etree.iterwalk(root, events=("start", "end")):
            if not isinstance(element.tag, str):
                continue
            if event == "start":
                self._enter(element)
                self._say(element.text, element.tag)
            else:
                self._leave(element)
                self._say(element.tail, "")
        self._flush("text")
        shown = self._shown
        shown.headline = " ".join("".join(self._runs["headline"]).split())[:300]
        about = f"{shown.title} {shown.headline}"
        shown.is_blocked = _BLOCKED.search(about) is not None and not shown.prices
        return shown

    def _enter(self, element: Any) -> None:
        marks = _marks(element)
        if element.tag in _BLOCKS:
            self._break()
        if "price" in marks and not self._open.price:
            self._flush("text")
        if "struck" in marks and not self._open.struck:
            self._runs["price" if self._open.price else "text"].append(" ")
        if "card" in marks and not self._open.card:
            self._card_has_price = False
        for mark in marks:
            setattr(self._open, mark, getattr(self._open, mark) + 1)
        self._marks.append(marks)

    def _leave(self, element: Any) -> None:
        for mark in self._marks.pop():
            setattr(self._open, mark, getattr(self._open, mark) - 1)
            if getattr(self._open, mark) == 0:
                self._close(mark)
        if element.tag in _BLOCKS:
            self._break()

    def _close(self, mark: str) -> None:
        if mark == "struck":
            self._flush("struck")
        elif mark == "price":
            self._flush("price")
        elif mark == "card" and self._card_has_price:
            self._shown.cards += 1

    def _break(self) -> None:
        if self._open.price:
            self._runs["price"].append(" ")
        else:
            self._flush("text")

    def _say(self, text: str | None, tag: str) -> None:
        if not text or self._open.silent:
            return
        if tag == "h1" or (self._runs["headline"] and not self._shown.headline and tag):
            self._runs["headline"].append(text[:300] if len(self._runs["headline"]) < 9 else "")  # noqa: PLR2004
        run = "struck" if self._open.struck else "price" if self._open.price else "text"
        self._runs[run].append(text)

    def _flush(self, run: str) -> None:
        parts = self._runs[run]
        if not parts:
            return
        text = "".join(parts)
        self._runs[run] = []
        if run == "text":
            self._shown.can_be_bought = self._shown.can_be_bought or _BUY.match(text) is not None
            self._shown.is_sold_out = self._shown.is_sold_out or (
                not self._open.aside and not self._open.card and _SOLD_OUT.search(text) is not None
            )
        else:
            text = text[:_LONGEST_RUN]
        if not any(map(str.isdigit, text)) or self._length > _MOST_AMOUNTS:
            return
        for amount in money.amounts(" ".join(text.split())):
            self._length += 1
            self._keep(amount, run)

    def _keep(self, amount: Amount, run: str) -> None:
        if self._open.card:
            self._card_has_price = self._card_has_price or run == "price"
        if self._open.instalment and not amount.is_cash:
            amount = Amount(amount.value, amount.currency, is_instalment=True)
        if run == "struck" or amount.is_old:
            self._shown.struck.append(amount)
        elif run == "price" and not self._open.aside and not self._open.card:
            self._shown.prices.append(amount)
        else:
            self._shown.amounts.append(amount)


def _marks(element: Any) -> tuple[str, ...]:
    """What an element says by its tag, its class and its style about the text in it."""
    get = element.get
    said = " ".join(filter(None, (get("class"), get("id"), get("data-testid"))))[:300]
    return _marks_of(element.tag, said, (get("style") or "")[:300], get("hidden") is not None)


@lru_cache(maxsize=4096)  # a page says the same again and again
def _marks_of(tag: str, said: str, style: str, hidden: bool) -> tuple[str, ...]:
    is_struck = tag in _STRUCK or _LINE_THROUGH.search(style) or (_OLD.search(said) and _PRICE.search(said))
    marks = {
        "silent": tag in _SILENT or hidden or _HIDDEN.search(style),
        "struck": is_struck,
        "price": not is_struck and _PRICE.search(said) and tag not in {"body", "html", "main"},
        "instalment": _PARTS.search(said),
        "aside": tag in {"nav", "footer", "aside"} or _ASIDE.search(said),
        "card": _CARD.search(said),
    }
    return tuple(name for name, holds in marks.items() if holds)

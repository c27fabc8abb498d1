"""What a page says to machines about its product: JSON-LD in the shapes that shops use, microdata, meta tags."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from retoma.pipelines.quotes.pricing import money

_MOST_SCRIPTS = 60
_MOST_NODES = 20_000
_PRODUCTS = frozenset({"product", "productgroup", "individualproduct", "productmodel", "vehicle", "car", "book"})
_LISTS = frozenset({"itemlist", "collectionpage", "searchresultspage", "offercatalog"})
_BESIDE = frozenset(
    {"isrelatedto", "issimilarto", "isaccessoryorsparepartfor", "isconsumablefor", "review", "reviews", "itemreviewed"}
)
_SOLD_OUT = frozenset({"outofstock", "soldout", "discontinued", "backorder", "oos", "outofstockonline"})
_OLD_TYPES = ("listprice", "strikethroughprice", "msrp", "srp", "regularprice", "suggestedretailprice")
_NOT_PRICES = frozenset({"deliverychargespecification", "paymentchargespecification"})


@dataclass(frozen=True, slots=True)
class Said:
    """One offer as the page tells it to machines."""

    price: Decimal | None
    currency: str | None = None
    is_sold_out: bool = False
    is_old: bool = False
    is_instalment: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """A product that the page describes, with its offers and its variants."""

    name: str = ""
    urls: tuple[str, ...] = ()
    offers: tuple[Said, ...] = ()
    variants: tuple[Product, ...] = ()


@dataclass(frozen=True, slots=True)
class Told:
    """What the JSON-LD of a page describes: its own products, and how many it only lists."""

    products: tuple[Product, ...] = ()
    listed: int = 0


def json_ld(root: Any) -> Told:
    """What the JSON-LD of a page describes."""
    products: dict[tuple[str, tuple[Said, ...]], Product] = {}
    listed = 0
    scripts = (each for each in root.iter("script") if "ld+json" in (each.get("type") or "").lower())
    for _, script in zip(range(_MOST_SCRIPTS), scripts, strict=False):
        for node, is_listed in _nodes(_loaded(script.text or "")):
            if is_listed:
                listed += 1
                continue
            product = _product(node)
            products.setdefault((product.name.casefold(), product.offers), product)
    return Told(tuple(products.values()), listed)


def _loaded(text: str) -> Any:
    text = text.strip().removeprefix("<!--").removesuffix("-->").strip().removeprefix("//<![CDATA[")
    text = text.removesuffix("//]]>").removeprefix("<![CDATA[").removesuffix("]]>").strip().rstrip(";")
    try:
        return json.loads(text, strict=False, parse_float=_decimal, parse_int=_decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _decimal(text: str) -> Decimal | None:
    # A number of a million digits is no price, and would take long to read.
    return Decimal(text) if len(text) <= 40 else None  # noqa: PLR2004


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """Every product in *tree* that is none of another's, and whether it stands in a list."""
    waiting: list[tuple[Any, bool]] = [(tree, False)]
    for _ in range(_MOST_NODES):
        if not waiting:
            return
        node, is_listed = waiting.pop()
        match node:
            case list():
                waiting += [(each, is_listed) for each in reversed(node)]
            case dict():
                kinds = _types(node)
                if kinds & _PRODUCTS:
                    yield node, is_listed
                    continue
                inside = is_listed or bool(kinds & _LISTS)
                named = [(key, each) for key, each in node.items() if key.lower() not in _BESIDE]
                waiting += [
                    (each, inside or key == "itemListElement")
                    for key, each in reversed(named)
                    if isinstance(each, dict | list)
                ]


def _types(node: dict[str, Any]) -> set[str]:
    told = node.get("@type")
    names = told if isinstance(told, list) else [told]
    return {_word(each) for each in names if isinstance(each, str)}


def _word(told: Any) -> str:
    """The last part of a name of schema.org, small: "https://schema.org/InStock" is "instock"."""
    if isinstance(told, dict):
        told = told.get("@id") or told.get("name")
    return told.strip().rstrip("/").rpartition("/")[2].rpartition(":")[2].lower() if isinstance(told, str) else ""


def _product(node: dict[str, Any], depth: int = 0) -> Product:
    variants = _many(node.get("hasVariant") or node.get("model")) if depth == 0 else []
    return Product(
        name=node["name"].strip()[:300] if isinstance(node.get("name"), str) else "",
        urls=tuple(each for key in ("url", "@id", "sku", "productID") if isinstance(each := node.get(key), str)),
        offers=tuple(said for offer in _many(node.get("offers")) for said in _offers(offer)),
        variants=tuple(_product(each, 1) for each in variants[:500] if isinstance(each, dict)),
    )


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _offers(node: Any, depth: int = 0) -> Iterator[Said]:
    if not isinstance(node, dict):
        return
    if depth == 0 and (inner := [each for each in _many(node.get("offers")) if isinstance(each, dict)]):
        for each in inner[:500]:
            yield from _offers({**node, **each, "offers": None}, 1)
        return
    currency = money.currency(node.get("priceCurrency"))
    sold_out = _word(node.get("availability")) in _SOLD_OUT
    told = node.get("price") if node.get("price") not in (None, "") else None
    if told is not None and not isinstance(told, dict | list):
        yield Said(money.price(told), currency or money.currency(told), sold_out)
    elif specifications := [each for each in _many(node.get("priceSpecification") or told) if isinstance(each, dict)]:
        for each in specifications[:100]:
            yield from _specified(each, currency, sold_out)
    elif node.get("lowPrice") not in (None, ""):
        low = node["lowPrice"]
        yield Said(money.price(low), currency or money.currency(low), sold_out)
    elif sold_out:
        yield Said(None, currency, is_sold_out=True)


def _specified(node: dict[str, Any], currency: str | None, sold_out: bool) -> Iterator[Said]:
    if _types(node) & _NOT_PRICES:
        return
    value = node.get("price") if node.get("price") not in (None, "") else node.get("minPrice")
    kind = _word(node.get("priceType"))
    about = f"{node.get('name') or ''} {node.get('description') or ''}".lower()[:300]
    yield Said(
        money.price(value),
        money.currency(node.get("priceCurrency")) or currency or money.currency(value),
        sold_out,
        is_old=any(kind.endswith(each) for each in _OLD_TYPES),
        is_instalment=bool(
            kind in {"installment", "instalment"}
            or node.get("billingDuration")
            or node.get("billingIncrement")
            or "parcela" in about
            or "installment" in about
        ),
    )


# — microdata, RDFa and meta tags —

_META_PRICES = ("product:price:amount", "product:sale_price:amount", "og:price:amount", "price")
_META_CURRENCIES = ("product:price:currency", "product:sale_price:currency", "og:price:currency", "pricecurrency")
_META_AVAILABLE = ("product:availability", "og:availability", "availability")


def microdata(root: Any) -> Product:
    """The offers that attributes of elements tell; those of other products, in lists and beside, are left out."""
    offers: list[Said] = []
    currency, sold_out, name = None, False, ""
    for element in root.iter():
        if not isinstance(element.tag, str) or (element.tag == "meta" and element.getparent().tag == "head"):
            continue
        property = (element.get("itemprop") or element.get("property") or "").lower()[:60].removeprefix("schema:")
        if property not in {"price", "lowprice", "pricecurrency", "availability", "name"}:
            continue
        told = element.get("content") or element.get("href") or element.get("value") or (element.text or "")
        if property in {"price", "lowprice"}:
            offers.append(Said(money.price(told[:80]), money.currency(told[:80])))
        elif property == "pricecurrency":
            currency = currency or money.currency(told[:20])
        elif property == "availability":
            sold_out = sold_out or _word(told[:200]) in _SOLD_OUT
        elif not name:
            name = " ".join(told.split())[:300]
    return Product(name=name, offers=tuple(Said(each.price, currency or each.currency, sold_out) for each in offers))


def meta(root: Any) -> Said | None:
    """The offer that meta tags tell."""
    told: dict[str, str] = {}
    for element in root.iter("meta"):
        name = (element.get("property") or element.get("name") or element.get("itemprop") or "").lower()
        if name in {*_META_PRICES, *_META_CURRENCIES, *_META_AVAILABLE}:
            told.setdefault(name, (element.get("content") or "")[:200])
    price = next((told[name] for name in _META_PRICES if told.get(name)), None)
    if price is None:
        return None
    currency = next((told[name] for name in _META_CURRENCIES if told.get(name)), None)
    available = next((told[name] for name in _META_AVAILABLE if told.get(name)), "")
    sold_out = _word(available).replace(" ", "") in _SOLD_OUT
    return Said(money.price(price), money.currency(currency) or money.currency(price), sold_out)

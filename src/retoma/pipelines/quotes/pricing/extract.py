"""The price of a product on the page of a shop: one number without doubt, or the reason why not.

Read in this order: structured data, meta tags, page elements. What machines are told is held against what
people see, because some shops tell machines the price of one instalment, or the one that held last month.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from decimal import Decimal
from typing import Any

from retoma.isolate import isolated
from retoma.pipelines.quotes.ports import Method, Refusal
from retoma.pipelines.quotes.pricing import domains, money, shown, structured
from retoma.pipelines.quotes.pricing.money import LEAST, MOST
from retoma.pipelines.quotes.pricing.offers import Found, Refused, cents
from retoma.pipelines.quotes.pricing.shown import Shown
from retoma.pipelines.quotes.pricing.structured import Product, Said

CURRENCY = "BRL"
_SECONDS = 20.0
_MEGABYTES = 512
_MOST_CARDS = 2  # boxes of products with prices that a page of one product may show outside of its margins
_ALTERNATIVES = 4


@isolated(seconds=_SECONDS, megabytes=_MEGABYTES)
def read_apart(html: str, url: str) -> Found | Refused:
    """What read_price says, from a child process: the page may be hostile."""
    return read_price(html, url)


def read_price(html: str, url: str) -> Found | Refused:
    """The price on the page at *url*, or why it has none that counts."""
    root = shown.parse(html)
    if root is None:
        return Refused(reason=Refusal.PAGE_LOAD, detail="There is no page in what the shop sent.")
    seen = shown.look(root)
    if seen.is_blocked:
        return Refused(reason=Refusal.BLOCKED_BY_SITE, detail=f"The shop answers {seen.title[:80]!r} to programs.")
    if domains.is_listing(url):
        return Refused(reason=Refusal.LISTING_PAGE, detail="The address leads to a search or a category.")
    reading = _of_json_ld(root, url, seen) or _of_attributes(root, seen) or _of_elements(seen)
    return _checked(reading, seen) if isinstance(reading, Found) else reading


# — structured data —


def _of_json_ld(root: Any, url: str, seen: Shown) -> Found | Refused | None:
    told = structured.json_ld(root)
    products = [each for each in told.products if each.offers or each.variants]
    product = _own(products, url, seen)
    if product is None and (len(products) > 1 or (not products and told.listed > 1)):
        return Refused(reason=Refusal.LISTING_PAGE, detail="The page describes several products and none as its own.")
    if product is None:
        return None
    if product.variants and not product.offers:
        return _of_variants(product, url, seen)
    return _of_offers(product.offers, product.name or seen.headline, Method.JSONLD, seen)


def _own(products: list[Product], url: str, seen: Shown) -> Product | None:
    """The product that the page is about."""
    if len(products) == 1:
        return products[0]
    own = [each for each in products if _is_named(each, url)]
    own = own or [each for each in products if seen.headline and each.name.casefold() == seen.headline.casefold()]
    return own[0] if own else None


def _is_named(product: Product, url: str) -> bool:
    """Whether *url* is an address of *product*, or names its code in its query or at its end."""
    bare = _bare(url)
    tail = url.rstrip("/").rpartition("/")[2]
    for each in product.urls:
        if _bare(each) == bare and _query(each) in ("", _query(url)):
            return True
        if "/" not in each and len(each) > 1 and (each in _query(url).replace("=", "&").split("&") or each == tail):
            return True
    return False


def _bare(url: str) -> str:
    """*url* without scheme, query and mark."""
    return url.partition("#")[0].partition("?")[0].partition("//")[2].rstrip("/").removeprefix("www.")


def _query(url: str) -> str:
    return url.partition("#")[0].partition("?")[2]


def _of_variants(product: Product, url: str, seen: Shown) -> Found | Refused:
    """The price of the variant that the page is about; without a sign of which one, only a price that all share."""
    chosen = [each for each in product.variants if _is_named(each, url) and (_query(url) or len(product.variants) == 1)]
    chosen = chosen or [
        each for each in product.variants if each.name and each.name.casefold() == seen.headline.casefold()
    ]
    pool = chosen[:1] or product.variants
    readings = [_of_offers(each.offers, each.name or product.name, Method.JSONLD, seen) for each in pool if each.offers]
    found = [each for each in readings if isinstance(each, Found)]
    if not found:
        return next((each for each in readings if each), None) or _nothing("No variant has an offer.")
    if len({each.price for each in found}) > 1:
        visible = {amount.value for amount in _eligible(seen.prices)}
        found = [each for each in found if each.price in visible]
        if len({each.price for each in found}) != 1:
            return _nothing("The variants have several prices, and the page does not say which one it shows.")
    return found[0]


def _of_offers(offers: Iterable[Said], title: str, method: Method, seen: Shown) -> Found | Refused | None:
    """The cheapest offer that can be bought in reais; else the reason that most of them have."""
    told = list(offers)
    if not told:
        return None
    open = [each for each in told if not each.is_sold_out]
    if not open:
        return Refused(reason=Refusal.SOLD_OUT, detail="Every offer of the page is sold out.")
    priced = [each for each in open if each.price is not None]
    if not priced:
        return None
    ours = [each for each in priced if (each.currency or _currency(seen)) == CURRENCY]
    if not ours:
        codes = ", ".join(sorted({each.currency or _currency(seen) for each in priced}))
        return Refused(reason=Refusal.FOREIGN_CURRENCY, detail=f"The price is in {codes}.", price=priced[0].price)
    return _cheapest(ours, title, method)


def _cheapest(offers: list[Said], title: str, method: Method) -> Found | Refused:
    whole = [each for each in offers if not each.is_instalment]
    if not whole:
        return _instalment(offers[0].price)
    current = [each.price for each in whole if not each.is_old and each.price is not None]
    if not current:
        return Refused(reason=Refusal.OLD_PRICE, detail="The page tells only the old price.", price=whole[0].price)
    return Found(price=cents(min(current)), currency=CURRENCY, method=method, title=title)


def _currency(seen: Shown) -> str:
    """The currency of a page that tells none to machines: that of the first amount it shows."""
    return next((amount.currency for amount in seen.every()), CURRENCY)


def _of_attributes(root: Any, seen: Shown) -> Found | Refused | None:
    """The price that microdata tells, or else meta tags."""
    product = structured.microdata(root)
    prices = {each.price for each in product.offers if each.price is not None}
    if len(prices) > _ALTERNATIVES:
        return Refused(reason=Refusal.LISTING_PAGE, detail="The page marks many prices and none as its own.")
    if reading := _of_offers(product.offers, product.name or seen.headline, Method.META, seen):
        return reading
    said = structured.meta(root)
    return _of_offers([said], seen.headline or seen.title, Method.META, seen) if said else None


# — page elements —


def _of_elements(seen: Shown) -> Found | Refused:
    """The price that people see, where the page tells nothing to machines."""
    if seen.cards > _MOST_CARDS:
        return Refused(reason=Refusal.LISTING_PAGE, detail=f"The page shows {seen.cards} products with prices.")
    if seen.is_sold_out and not seen.can_be_bought:
        return Refused(reason=Refusal.SOLD_OUT, detail="The page says that the product is sold out.")
    whole = _eligible(seen.prices)
    if not whole:
        return _no_price(seen)
    values = dict.fromkeys(amount.value for amount in whole)
    if len(values) > _ALTERNATIVES:
        return Refused(reason=Refusal.LISTING_PAGE, detail=f"The page shows {len(values)} prices and none as its own.")
    if whole[0].currency != CURRENCY:
        detail = f"The price is in {whole[0].currency}."
        return Refused(reason=Refusal.FOREIGN_CURRENCY, detail=detail, price=whole[0].value)
    chosen = next((amount for amount in whole if amount.is_cash), whole[0])
    return Found(price=cents(chosen.value), currency=CURRENCY, method=Method.DOM, title=seen.headline or seen.title)


def _no_price(seen: Shown) -> Refused:
    if seen.cards > 1:
        return Refused(reason=Refusal.LISTING_PAGE, detail=f"The page shows {seen.cards} products with prices.")
    if parts := [amount for amount in seen.prices if amount.is_instalment]:
        return _instalment(parts[0].value)
    if seen.struck:
        return Refused(reason=Refusal.OLD_PRICE, detail="The only price is struck out.", price=seen.struck[0].value)
    return _nothing("The page shows no price.")


def _eligible(amounts: Collection[money.Amount]) -> list[money.Amount]:
    return [amount for amount in amounts if not amount.is_instalment and not amount.is_old]


# — what machines are told, against what people see —


def _checked(found: Found, seen: Shown) -> Found | Refused:
    if not LEAST <= found.price <= MOST:
        detail = f"A price of {found.price} is outside of {LEAST} to {MOST}."
        return Refused(reason=Refusal.INVALID_PRICE, detail=detail, price=found.price)
    whole = {cents(amount.value) for amount in seen.every() if not amount.is_instalment}
    if found.price in whole:
        return found
    if any(amount.is_instalment and cents(amount.value) == found.price for amount in seen.every()):
        return _instalment(found.price)
    current = {cents(amount.value) for amount in _eligible(seen.prices) if amount.currency == CURRENCY}
    if current and any(cents(amount.value) == found.price for amount in seen.struck):
        detail = f"The page strikes out {found.price} and asks {min(current)}."
        return Refused(reason=Refusal.OLD_PRICE, detail=detail, price=found.price)
    if found.method is not Method.DOM and seen.is_sold_out and not seen.can_be_bought:
        return Refused(reason=Refusal.SOLD_OUT, detail="The page says that the product is sold out.")
    return found


def _instalment(price: Decimal | None) -> Refused:
    return Refused(reason=Refusal.INSTALMENT_PRICE, detail=f"{price} is the price of one instalment.", price=price)


def _nothing(detail: str) -> Refused:
    return Refused(reason=Refusal.EXTRACTION_FAILED, detail=detail)

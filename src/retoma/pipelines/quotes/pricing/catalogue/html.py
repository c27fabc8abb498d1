"""Pages of the invented shops: each in one of the shapes that real shops use, or with one of their traps."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from retoma.pipelines.quotes.pricing.offers import cents

Shape = Callable[[str, Decimal], tuple[str, str]]
"""What a page has in its head and in its body."""


def render(page: Mapping[str, str]) -> str:
    """The page of an offer."""
    title, price = page["title"], Decimal(page["price"])
    head, body = SHAPES[page["shape"]](title, price)
    name = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="pt-BR"><head><meta charset="utf-8"><title>{name}</title>{head}</head>'
        f"<body><header><nav>Ofertas</nav></header><main><h1>{name}</h1>{body}<button>Comprar</button></main>"
        '<aside class="related"><p class="price">R$ 19,90</p></aside></body></html>\n'
    )


def reais(price: Decimal) -> str:
    """*price* as Brazilians write it."""
    return f"R$ {cents(price):,.2f}".translate(str.maketrans(",.", ".,"))


def _data(*values: Any) -> str:
    return "".join(f'<script type="application/ld+json">{json.dumps(each)}</script>' for each in values)


def _product(title: str, offers: Any, **more: Any) -> dict[str, Any]:
    return {"@context": "https://schema.org", "@type": "Product", "name": title, "offers": offers, **more}


def _offer(price: Decimal, *, currency: str = "BRL", state: str = "InStock") -> dict[str, Any]:
    available = f"https://schema.org/{state}"
    return {"@type": "Offer", "price": str(price), "priceCurrency": currency, "availability": available}


def _shown(price: Decimal) -> str:
    """What people see: the old price, the price, and what an instalment costs."""
    return (
        f'<div class="price-box"><del>{reais(price * 2)}</del> <strong>{reais(price)}</strong> à vista '
        f"ou 10x de {reais(price / 8)}</div>"
    )


def _graph(title: str, price: Decimal) -> tuple[str, str]:
    return _data({"@graph": [{"@type": "WebSite"}, _product(title, _offer(price))]}), _shown(price)


def _list(title: str, price: Decimal) -> tuple[str, str]:
    return _data([{"@type": "BreadcrumbList"}, _product(title, _offer(price))]), _shown(price)


def _offers(title: str, price: Decimal) -> tuple[str, str]:
    return _data(_product(title, [_offer(price / 2, state="OutOfStock"), _offer(price)])), _shown(price)


def _aggregate(title: str, price: Decimal) -> tuple[str, str]:
    offers = {"@type": "AggregateOffer", "lowPrice": str(price), "highPrice": str(price * 2), "priceCurrency": "BRL"}
    return _data(_product(title, offers)), _shown(price)


def _specification(title: str, price: Decimal) -> tuple[str, str]:
    specifications = [
        {"price": str(price * 2), "priceCurrency": "BRL", "priceType": "https://schema.org/ListPrice"},
        {"price": str(price), "priceCurrency": "BRL"},
    ]
    return _data(_product(title, {"@type": "Offer", "priceSpecification": specifications})), _shown(price)


def _variants(title: str, price: Decimal) -> tuple[str, str]:
    variants = [_product(f"{title} azul", _offer(price * 2)), _product(title, _offer(price))]
    return _data({"@type": "ProductGroup", "name": title, "hasVariant": variants}), _shown(price)


def _microdata(_: str, price: Decimal) -> tuple[str, str]:
    return "", (
        '<div itemscope itemtype="https://schema.org/Offer"><meta itemprop="priceCurrency" content="BRL">'
        f'<span itemprop="price" content="{price}">{reais(price)}</span></div>'
    )


def _meta(_: str, price: Decimal, *, currency: str = "BRL") -> tuple[str, str]:
    return (
        f'<meta property="product:price:amount" content="{price}">'
        f'<meta property="product:price:currency" content="{currency}">'
    ), ""


def _element(_: str, price: Decimal) -> tuple[str, str]:
    return "", _shown(price)


def _pieces(_: str, price: Decimal) -> tuple[str, str]:
    whole, _, rest = reais(price).removeprefix("R$ ").partition(",")
    return "", f'<p class="preco"><span>R$</span><span>{whole}<i>,</i></span><sup>{rest}</sup></p>'


# — traps —


def _instalment(title: str, price: Decimal) -> tuple[str, str]:
    part = cents(price / 10)
    return _data(_product(title, _offer(part))), f'<p class="price">10x de {reais(part)}</p>'


def _old(title: str, price: Decimal) -> tuple[str, str]:
    old = cents(price * 2)
    body = f'<del>{reais(old)}</del> <b class="price">{reais(price)}</b>'
    return _data(_product(title, _offer(old))), body


def _currency(title: str, price: Decimal) -> tuple[str, str]:
    return _data(_product(title, _offer(price, currency="USD"))), f'<p class="price">US$ {price}</p>'


def _listing(title: str, price: Decimal) -> tuple[str, str]:
    items = [{"@type": "ListItem", "item": _product(f"{title} {each}", _offer(price * each))} for each in (1, 2, 3)]
    return _data({"@type": "ItemList", "itemListElement": items}), ""


def _sold_out(title: str, price: Decimal) -> tuple[str, str]:
    return _data(_product(title, _offer(price, state="OutOfStock"))), "<p>Produto indisponível</p>"


def _mismatch(title: str, price: Decimal) -> tuple[str, str]:
    return _graph(title, cents(price * Decimal("1.12")))


def _no_price(_: str, __: Decimal) -> tuple[str, str]:
    return "", "<p>Fale com um vendedor.</p>"


SHAPES: dict[str, Shape] = {
    "graph": _graph,
    "list": _list,
    "offers": _offers,
    "aggregate": _aggregate,
    "specification": _specification,
    "variants": _variants,
    "microdata": _microdata,
    "meta": _meta,
    "element": _element,
    "pieces": _pieces,
    "instalment": _instalment,
    "old": _old,
    "currency": _currency,
    "listing": _listing,
    "duplicate": _graph,
    "sold-out": _sold_out,
    "foreign": _graph,
    "mismatch": _mismatch,
    "blocked": _graph,
    "no-price": _no_price,
}

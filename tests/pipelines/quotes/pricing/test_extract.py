"""Prices on pages: every shape that shops use, and every trap refused with its reason."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from retoma.pipelines.quotes.ports import Method, Refusal
from retoma.pipelines.quotes.pricing import money
from retoma.pipelines.quotes.pricing.domains import Shops, domain_of, is_listing
from retoma.pipelines.quotes.pricing.extract import read_apart, read_price
from retoma.pipelines.quotes.pricing.offers import Found, Refused, hold_against, key_of

URL = "https://www.lojaveredas.com.br/cadeira-giratoria-presidente/p"
NAME = "Cadeira giratória presidente"
PRICE = Decimal("1299.90")


def page(*data: Any, head: str = "", body: str = "") -> str:
    scripts = "".join(f'<script type="application/ld+json">{json.dumps(each)}</script>' for each in data)
    return f"<!DOCTYPE html><html><head><title>{NAME}</title>{head}{scripts}</head><body>{body}</body></html>"


def product(**more: Any) -> dict[str, Any]:
    return {"@context": "https://schema.org", "@type": "Product", "name": NAME, **more}


def offer(price: Any = "1299.90", **more: Any) -> dict[str, Any]:
    told = {"@type": "Offer", "price": price, "priceCurrency": "BRL", "availability": "https://schema.org/InStock"}
    return {**told, **more}


def specification(price: Any, **more: Any) -> dict[str, Any]:
    return {"@type": "UnitPriceSpecification", "price": price, "priceCurrency": "BRL", **more}


SHAPES: dict[str, str] = {
    "one offer": page(product(offers=offer())),
    "a price that is a number": page(product(offers=offer(1299.9))),
    "a price as Brazilians write it": page(product(offers=offer("R$ 1.299,90"))),
    "a list at the top": page([{"@type": "BreadcrumbList", "itemListElement": []}, product(offers=offer())]),
    "a graph": page({"@context": "https://schema.org", "@graph": [{"@type": "WebSite"}, product(offers=offer())]}),
    "a page about a product": page({"@type": "ItemPage", "mainEntity": product(offers=offer())}),
    "a list of offers, the cheapest counts": page(product(offers=[offer("1450.00"), offer()])),
    "a sold out offer beside another": page(product(offers=[offer("900", availability="OutOfStock"), offer()])),
    "offers in several currencies": page(product(offers=[offer("250.00", priceCurrency="USD"), offer()])),
    "an aggregate": page(
        product(
            offers={"@type": "AggregateOffer", "lowPrice": "1299.90", "highPrice": 1499, "priceCurrency": "BRL"},
        )
    ),
    "an aggregate with its offers": page(
        product(
            offers={
                "@type": "AggregateOffer",
                "priceCurrency": "BRL",
                "lowPrice": 999,
                "offers": [
                    offer("999", availability="https://schema.org/SoldOut"),
                    {"@type": "Offer", "price": 1299.9},
                ],
            }
        )
    ),
    "a price specification": page(product(offers={"@type": "Offer", "priceSpecification": specification(1299.9)})),
    "price specifications with the list price and an instalment": page(
        product(
            offers={
                "@type": "Offer",
                "priceSpecification": [
                    specification("1599.00", priceType="https://schema.org/ListPrice"),
                    specification("129.99", name="10 parcelas sem juros"),
                    specification("1299.90"),
                    {"@type": "DeliveryChargeSpecification", "price": 20, "priceCurrency": "BRL"},
                ],
            }
        )
    ),
    "variants of one price": page(
        {"@type": "ProductGroup", "name": NAME, "hasVariant": [product(offers=offer()), product(offers=offer())]}
    ),
    "variants of which the page shows one": page(
        {
            "@type": "ProductGroup",
            "name": "Cadeiras",
            "hasVariant": [product(offers=offer("999.00"), sku="A1"), product(offers=offer(), sku="B2")],
        },
        body='<h1>Cadeira</h1><div class="product-price">R$ 1.299,90</div>',
    ),
    "several types": page({**product(offers=offer()), "@type": ["Product", "IndividualProduct"]}),
    "related products beside it": page(
        product(offers=offer(), isRelatedTo=[product(name="Mesa", offers=offer("300"))])
    ),
    "a list of other products": page(
        product(offers=offer()),
        {
            "@type": "ItemList",
            "itemListElement": [
                {"@type": "ListItem", "item": product(name="Mesa", offers=offer("300"))},
                {"@type": "ListItem", "item": product(name="Banco", offers=offer("200"))},
            ],
        },
    ),
    "a script that is broken beside one that is not": page(
        product(offers=offer()), head='<script type="application/ld+json">{"@type": "Product", </script>'
    ),
    "comments around the data": page(
        head=f'<script type="application/ld+json"><!-- {json.dumps(product(offers=offer()))} --></script>'
    ),
    "microdata": page(
        body='<div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">Cadeira</h1>'
        '<span itemprop="offers" itemscope itemtype="https://schema.org/Offer">'
        '<meta itemprop="priceCurrency" content="BRL"><span itemprop="price" content="1299.90">R$ 1.299,90</span>'
        "</span></div>"
    ),
    "meta tags": page(
        head='<meta property="product:price:amount" content="1299.90">'
        '<meta property="product:price:currency" content="BRL">'
    ),
    "old meta tags with a Brazilian number": page(head='<meta property="og:price:amount" content="1.299,90">'),
    "an element": page(body='<h1>Cadeira</h1><p class="preco">R$ 1.299,90</p>'),
    "a price in pieces": page(
        body='<span class="a-price"><span>R$</span><span class="whole">1.299<span>,</span></span><span>90</span></span>'
    ),
    "old price, cash price and instalments in one box": page(
        body='<div class="price-box"><del>R$ 1.599,00</del> <strong>R$ 1.299,90</strong> à vista '
        "ou 10x de R$ 142,99 sem juros</div>"
    ),
    "from and to in words": page(body='<div class="preco">De R$ 1.599,00 por R$ 1.299,90</div>'),
    "a price with agora behind it": page(body='<div class="price">R$ 1.299,90 agora</div>'),
    "a card price before the cash price": page(
        body='<div class="price">R$ 1.444,33</div><div class="price">R$ 1.299,90 no Pix</div>'
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_price_is_read_in_every_shape(shape: str) -> None:
    found = read_price(SHAPES[shape], URL)

    assert isinstance(found, Found), found
    assert (found.price, found.currency) == (PRICE, "BRL")


@pytest.mark.parametrize(
    ("shape", "method"),
    [("a graph", Method.JSONLD), ("microdata", Method.META), ("meta tags", Method.META), ("an element", Method.DOM)],
)
def test_the_way_it_was_read_is_told(shape: str, method: Method) -> None:
    found = read_price(SHAPES[shape], URL)

    assert isinstance(found, Found)
    assert found.method is method


def test_what_machines_are_told_comes_before_what_people_see() -> None:
    html = page(product(offers=offer()), body='<div class="price">R$ 1.250,00</div>')

    found = read_price(html, URL)

    assert isinstance(found, Found)
    assert (found.price, found.method) == (PRICE, Method.JSONLD)


def cards(number: int) -> str:
    card = '<li class="product-card"><h2>Cadeira {0}</h2><span class="price">R$ {0}99,00</span></li>'
    return "<ul>" + "".join(card.format(each) for each in range(1, number + 1)) + "</ul>"


TRAPS: dict[str, tuple[str, Refusal]] = {
    "machines are told the instalment": (
        page(
            product(offers=offer("129.99")),
            body='<div class="price">R$ 1.299,90</div><div class="price">ou 10x de R$ 129,99</div>',
        ),
        Refusal.INSTALMENT_PRICE,
    ),
    "meta tags tell the instalment": (
        page(
            head='<meta property="product:price:amount" content="99.90">',
            body="<p>12 parcelas de R$ 99,90 sem juros</p>",
        ),
        Refusal.INSTALMENT_PRICE,
    ),
    "people see only the instalment": (
        page(body='<h1>Cadeira</h1><div class="price">12x R$ 99,90</div>'),
        Refusal.INSTALMENT_PRICE,
    ),
    "a monthly price": (page(body='<div class="price">R$ 99,90/mês</div>'), Refusal.INSTALMENT_PRICE),
    "a box of instalments": (
        page(body='<div class="price installments">R$ 99,90</div>'),
        Refusal.INSTALMENT_PRICE,
    ),
    "a specification of instalments alone": (
        page(product(offers={"priceSpecification": specification(99.9, billingDuration="P1M")})),
        Refusal.INSTALMENT_PRICE,
    ),
    "machines are told the old price": (
        page(
            product(offers=offer("1599.00")),
            body='<div class="box"><del>R$ 1.599,00</del><b class="price">R$ 1.299,90</b></div>',
        ),
        Refusal.OLD_PRICE,
    ),
    "only a list price": (
        page(product(offers={"priceSpecification": specification(1599, priceType="ListPrice")})),
        Refusal.OLD_PRICE,
    ),
    "only a price that is struck out": (page(body='<div class="price"><s>R$ 1.599,00</s></div>'), Refusal.OLD_PRICE),
    "struck out by its class": (page(body='<div class="price-old">R$ 1.599,00</div>'), Refusal.OLD_PRICE),
    "struck out by its style": (
        page(body='<span class="price" style="text-decoration: line-through">R$ 1.599,00</span>'),
        Refusal.OLD_PRICE,
    ),
    "dollars": (page(product(offers=offer(priceCurrency="USD"))), Refusal.FOREIGN_CURRENCY),
    "dollars by their sign": (page(product(offers=offer("US$ 250.00", priceCurrency=None))), Refusal.FOREIGN_CURRENCY),
    "euros that people see": (page(body='<div class="price">€ 250,00</div>'), Refusal.FOREIGN_CURRENCY),
    "euros of which machines are not told": (
        page(product(offers=offer("250.00", priceCurrency=None)), body='<div class="price">€ 250,00</div>'),
        Refusal.FOREIGN_CURRENCY,
    ),
    "a list of products": (
        page({"@type": "ItemList", "itemListElement": [{"item": product(offers=offer(each))} for each in (1, 2)]}),
        Refusal.LISTING_PAGE,
    ),
    "several products and none is the page's own": (
        page(product(name="Mesa", offers=offer()), product(name="Banco", offers=offer(300))),
        Refusal.LISTING_PAGE,
    ),
    "cards of products": (page(body=cards(6)), Refusal.LISTING_PAGE),
    "many marked prices": (
        page(body="".join(f'<b itemprop="price" content="{each}00"></b>' for each in range(1, 8))),
        Refusal.LISTING_PAGE,
    ),
    "sold out": (page(product(offers=offer(availability="http://schema.org/OutOfStock"))), Refusal.SOLD_OUT),
    "discontinued": (page(product(offers=offer(availability="Discontinued"))), Refusal.SOLD_OUT),
    "sold out by meta tags": (
        page(head='<meta property="og:price:amount" content="1299.90"><meta property="og:availability" content="oos">'),
        Refusal.SOLD_OUT,
    ),
    "sold out in words": (
        page(body='<div class="price">R$ 1.299,90</div><p>Produto indisponível</p>'),
        Refusal.SOLD_OUT,
    ),
    "sold out in words, and machines are told otherwise": (
        page(product(offers=offer()), body="<p>Produto esgotado</p>"),
        Refusal.SOLD_OUT,
    ),
    "no price": (page(body="<h1>Cadeira</h1><p>Consulte-nos</p>"), Refusal.EXTRACTION_FAILED),
    "variants of several prices": (
        page({"@type": "ProductGroup", "hasVariant": [product(offers=offer(9)), product(offers=offer(8))]}),
        Refusal.EXTRACTION_FAILED,
    ),
    "a price of nothing": (page(product(offers=offer("0.00"))), Refusal.INVALID_PRICE),
    "a price beyond all": (page(product(offers=offer("99999999"))), Refusal.INVALID_PRICE),
    "a shop that refuses programs": ("<title>Just a moment...</title><p>Checking", Refusal.BLOCKED_BY_SITE),
    "no page": ("", Refusal.PAGE_LOAD),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_refused_with_its_reason(trap: str) -> None:
    html, reason = TRAPS[trap]

    refused = read_price(html, URL)

    assert isinstance(refused, Refused), refused
    assert refused.reason is reason
    assert refused.detail


def test_a_variant_is_chosen_by_its_address() -> None:
    variants = [product(offers=offer("999.00"), sku="A1"), product(offers=offer(), sku="B2")]
    html = page({"@type": "ProductGroup", "name": "Cadeiras", "hasVariant": variants})

    found = read_price(html, f"{URL}?skuId=B2")

    assert isinstance(found, Found)
    assert found.price == PRICE


def test_the_address_of_a_search_is_a_listing_whatever_the_page_says() -> None:
    refused = read_price(SHAPES["one offer"], "https://www.lojaveredas.com.br/busca?q=cadeira")

    assert isinstance(refused, Refused)
    assert refused.reason is Refusal.LISTING_PAGE


@pytest.mark.parametrize(
    ("listed", "holds"),
    [("1299.90", True), ("1238.00", True), ("1368.31", True), ("1237.99", False), ("1368.33", False)],
)
def test_a_page_may_differ_by_five_percent_from_what_was_listed(listed: str, holds: bool) -> None:
    reading = read_price(SHAPES["one offer"], URL)

    held = hold_against(reading, listed=Decimal(listed))

    if holds:
        assert held == reading
    else:
        assert isinstance(held, Refused)
        assert held.reason is Refusal.PRICE_MISMATCH
        assert held.price == PRICE


async def test_a_page_is_read_in_a_child_process_too() -> None:
    assert await read_apart.run(SHAPES["a graph"], URL) == read_price(SHAPES["a graph"], URL)
    assert await read_apart.run("", URL) == read_price("", URL)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000,
        '<div class="price">' * 50_000 + "R$ 1,00",
        page(head='<script type="application/ld+json">' + "[" * 100_000 + "</script>"),
        page(product(offers=offer("9" * 100_000))),
        page(head='<script type="application/ld+json">{"@type":"Product","offers":{"price":1e999999}}</script>'),
        page(
            head='<script type="application/ld+json">{"@type":"Product","offers":{"price":' + "9" * 9999 + "}}</script>"
        ),
        "\0\0\ufeff<?xml version='1.0' encoding='utf-7'?>",
        '<p itemprop="price">' + "1" * 100_000,
        "R$ " * 100_000,
        '<meta property="product:price:amount" content="NaN">',
    ],
)
def test_a_hostile_page_has_no_price(html: str) -> None:
    assert isinstance(read_price(html, URL), Refused)


# — numbers —


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.299,90", "1299.90"),
        ("1,299.90", "1299.90"),
        ("1299.90", "1299.90"),
        ("1299,9", "1299.9"),
        ("1.299", "1299"),
        ("1,299", "1299"),
        ("1.299.000", "1299000"),
        ("1.234.567,89", "1234567.89"),
        ("0.999", "0.999"),
        ("12", "12"),
        ("R$ 1.676,76 agora", "1676.76"),
        ("R$\u00a01.299,90", "1299.90"),
        ("1 299,90", "1299.90"),
        ("1'299.90", "1299.90"),
        ("1299.9000", "1299.9000"),
        ("abc", None),
        ("-5", None),
        ("", None),
        ("1,2,3.4.5", None),
        ("²", None),
    ],
)
def test_a_number_is_read_as_it_is_meant(text: str, value: str | None) -> None:
    assert money.price(text) == (Decimal(value) if value else None)


@pytest.mark.parametrize(
    "text",
    [
        "10x de R$ 129,99", "10 x R$ 129,99", "em até 10x de R$ 129,99 sem juros", "10 parcelas de R$ 129,99",
        "12 vezes de R$129,99", "R$ 129,99 por mês", "R$ 129,99 /mês", "10× R$ 129,99",
    ],
)  # fmt: skip
def test_an_instalment_is_told_by_its_words(text: str) -> None:
    (amount,) = money.amounts(text)

    assert amount.is_instalment
    assert amount.value == Decimal("129.99")


def test_one_time_a_price_is_the_price() -> None:
    (amount,) = money.amounts("1x de R$ 129,99")

    assert not amount.is_instalment


# — shops —


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://www.loja.com.br/p/1", "loja.com.br"),
        ("https://a.b.loja.com.br:8443/p", "loja.com.br"),
        ("http://loja.br", "loja.br"),
        ("https://shop.example.com", "example.com"),
        ("https://lojaveredas.com.br.test/p/1", "lojaveredas.com.br.test"),
        ("https://127.0.0.1/p", ""),
        ("https://[::1]/p", ""),
        ("nothing", ""),
        ("https://[", ""),
    ],
)
def test_a_shop_is_known_by_the_name_it_is_registered_under(url: str, domain: str) -> None:
    assert domain_of(url) == domain


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (None, Refusal.NO_STORE_LINK),
        ("https://www.google.com/shopping/product/1", Refusal.NO_STORE_LINK),
        ("https://www.proibida.com.br/p/1", Refusal.BLOCKED_DOMAIN),
        ("https://www.bigstore.com/p/1", Refusal.FOREIGN_DOMAIN),
        ("https://www.conhecida.com.br/p/2", Refusal.DUPLICATE_DOMAIN),
        ("https://www.loja.com.br/categoria/cadeiras", Refusal.LISTING_PAGE),
        ("https://www.loja.com.br/", Refusal.LISTING_PAGE),
        ("https://www.loja.com.br/cadeira/p", None),
        ("https://brasileira.shop/p/1", None),
    ],
)
def test_a_shop_is_refused_before_its_page_is_opened(url: str | None, reason: Refusal | None) -> None:
    shops = Shops(blocked={"proibida.com.br"}, also_national={"brasileira.shop"})

    refused = shops.refusal(url, seen={"conhecida.com.br"})

    assert (refused.reason if refused else None) is reason


def test_a_product_page_below_a_search_is_no_listing() -> None:
    assert not is_listing("https://www.loja.com.br/busca/produto/123")
    assert is_listing("https://www.loja.com.br/busca/cadeira")


def test_a_key_is_made_of_title_and_price() -> None:
    assert key_of("Cadeira  X", Decimal(10)) == key_of("cadeira x", Decimal("10.00"))
    assert key_of("Cadeira X", Decimal(10)) != key_of("Cadeira X", Decimal("10.01"))

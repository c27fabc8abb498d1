"""The report: what follows from the evidence, shown in full, and nothing that can be changed unnoticed."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import pypdfium2
import pytest
from openpyxl import load_workbook
from pikepdf import Pdf

from retoma.pipelines.quotes.ports import Evidence, Method, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import pdf, report_pdf, report_xlsx
from retoma.pipelines.quotes.pricing.catalogue.html import render as page
from retoma.pipelines.quotes.pricing.catalogue.server import answer
from retoma.pipelines.quotes.pricing.correction import IndexTable
from retoma.pipelines.quotes.pricing.report import (
    Asset,
    Decision,
    Document,
    Report,
    Research,
    Source,
    derive,
    document,
    fingerprint,
    from_json,
    to_json,
)
from retoma.pipelines.quotes.pricing.screenshots import NO_BROWSER
from retoma.pipelines.quotes.pricing.sources.compras import ComprasGov
from retoma.pipelines.quotes.pricing.statistics import Central, Discard, Rules
from retoma.pipelines.quotes.pricing.valuation import Conservation, Factors
from retoma.pipelines.quotes.pricing.verify import ReportUnreadable, verify
from retoma.pipelines.quotes.pricing.wording import REFUSALS
from retoma.providers import Offers

D = Decimal
NOW = datetime(2026, 11, 17, 22, 30, 15, tzinfo=UTC)
EXAMPLE = IndexTable(  # figures for these tests alone
    index="IPCA",
    source="example for tests, not an official figure",
    dated=date(2026, 11, 1),
    percents={f"2026-{month:02}": D("1.00") for month in range(4, 11)},
    sha256="0" * 64,
)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def picture() -> bytes:
    """A red PNG of 4 × 3 points."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", 4, 3, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * 4) * 3
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Kept:
    """Evidence in memory."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def __call__(self, name: str) -> bytes | None:
        return self.blobs.get(name)

    def evidence(self, content: bytes, url: str, kind: str = "text/html", *, shot: bytes | None = None) -> Evidence:
        name = f"quotes/evidence/{sha256(content)}"
        self.blobs[name] = content
        shown: dict[str, Any] = {"without_screenshot": NO_BROWSER}
        if shot:
            self.blobs["shot"] = shot
            shown = {"screenshot": "shot", "screenshot_sha256": sha256(shot)}
        return Evidence(url=url, sha256=sha256(content), blob=name, captured_at=NOW, kind=kind, **shown)

    def shop(self, number: int, price: str, *, shape: str = "graph", shot: bytes | None = None, **more: Any) -> Source:
        html = page({"title": f"Cadeira {number}", "price": price, "shape": shape}).encode()
        url = f"http://loja{number}.com.br.test/produto/{number}"
        given: dict[str, Any] = {
            "key": f"k{number}",
            "title": f"Cadeira {number}",
            "provider": "serpapi",
            "kind": SourceKind.SHOP,
            "method": Method.JSONLD,
            "price": D(price),
            "url": url,
            "domain": f"loja{number}.com.br.test",
            "seller": f"Loja {number}",
            "evidence": self.evidence(html, url, shot=shot),
        }
        return Source(**{**given, **more})

    def official(self) -> Source:
        raw = json.dumps(answer("/modulo-pesquisa-preco/1_consultarMaterial", {"codigoItemCatalogo": "900001"})[1])
        offer = ComprasGov().read(Offers(offers=(), raw=raw))[0]
        return Source(
            key=offer.key,
            title=offer.title,
            provider="compras.gov.br",
            kind=offer.kind,
            method=Method.API_OFFICIAL,
            price=offer.price,
            domain=offer.domain,
            seller=offer.seller,
            dated=offer.dated,
            detail=offer.detail,
            evidence=self.evidence(raw.encode(), "https://dadosabertos.compras.gov.br", "application/json"),
        )


@pytest.fixture
def kept() -> Kept:
    return Kept()


def research(kept: Kept, **more: Any) -> Research:
    given: dict[str, Any] = {
        "number": "1",
        "object": "Cadeira giratória presidente com braços",
        "researcher": "Maria Pesquisadora",
        "researched_at": NOW,
        "quantity": D(4),
        "code": "PAT-0042",
        "place": "Almoxarifado",
        "query": "cadeira giratória presidente",
        "specifications": {"cor": "preta"},
        "index": EXAMPLE,
        "configuration": "7",
        "legal_basis": "Norma configurada pelo órgão",
        "asset": Asset(
            factors=Factors(version="7"),
            conservation=Conservation.REGULAR,
            years_used=3,
            years_left=6,
            book_value=D("500.00"),
        ),
        "decisions": (Decision(at=NOW, by="João Revisor", what="Incluiu a fonte 2", reason="Produto equivalente"),),
        "sources": (
            kept.official(),
            kept.shop(2, "950.00", shot=picture()),
            kept.shop(3, "990.00", shape="meta", method=Method.META),
            kept.shop(4, "1900.00", shape="element", method=Method.DOM),
            kept.shop(
                5,
                "970.00",
                shape="instalment",
                refused=Refusal.INSTALMENT_PRICE,
                reason="10 parcelas de 97,00",
                by="Ana",
            ),
        ),
    }
    return Research(**{**given, **more})


def closed(*researches: Research) -> Document:
    return document("Pesquisa de preços 12/2026", NOW, *researches)


# — what follows —


def test_figures_follow_from_what_counts(kept: Kept) -> None:
    report = derive(research(kept))

    assert [line.counts for line in report.lines] == [True, True, True, False, False]
    assert report.lines[3].discarded is Discard.EXCESSIVE
    # 943.40 of August by September and October, at 1 % each.
    assert report.lines[0].price == D("962.36")
    assert report.figures
    assert (report.figures.median, report.result, report.total) == (D("962.36"), D("962.36"), D("3849.44"))
    assert report.collected
    assert report.collected.count == 4
    assert report.valuation
    assert report.valuation.value == D("731.39")
    assert report.valuation.movement == "REVALUATION"


@pytest.mark.parametrize(("central", "result"), [(Central.MEAN, "967.45"), (Central.LOWEST, "950.00")])
def test_the_result_is_by_the_configured_method(kept: Kept, central: Central, result: str) -> None:
    assert derive(research(kept, rules=Rules(central=central))).result == D(result)


def test_nominal_and_corrected_are_both_told(kept: Kept) -> None:
    (line, *_) = derive(research(kept)).lines

    assert line.correction
    assert (line.correction.nominal, line.correction.corrected, line.correction.index) == (
        D("943.40"),
        D("962.36"),
        "IPCA",
    )
    assert derive(research(kept, index=None)).lines[0].price == D("943.40")


def test_a_price_that_is_too_old_does_not_count(kept: Kept) -> None:
    old = replace(kept.official(), dated=datetime(2025, 11, 1, tzinfo=UTC))
    recent = kept.shop(2, "950.00", dated=datetime(2026, 5, 1, tzinfo=UTC))

    report = derive(research(kept, sources=(old, recent), index=None))

    assert [line.refused for line in report.lines] == [Refusal.TOO_OLD, Refusal.TOO_OLD]


def test_a_price_without_date_and_hour_does_not_count(kept: Kept) -> None:
    report = derive(research(kept, sources=(kept.shop(2, "950.00", evidence=None),)))

    assert report.lines[0].refused is Refusal.TOO_OLD


def alerts(report: Report) -> str:
    return " ".join(report.alerts)


def test_fewer_prices_than_the_rule_wants_need_a_justification_that_was_approved(kept: Kept) -> None:
    few = research(kept, sources=(kept.official(), kept.shop(2, "950.00")))

    assert "Falta justificativa" in alerts(derive(few))
    assert "Falta justificativa" in alerts(derive(replace(few, justification="pouco", approved_by="Diretora")))
    enough = replace(few, justification="Mercado restrito a dois fornecedores. " * 4, approved_by="Diretora")
    assert "aprovada por Diretora" in alerts(derive(enough))
    assert "Falta justificativa" not in alerts(derive(enough))


def test_public_sources_come_first_or_the_report_says_so(kept: Kept) -> None:
    shops = tuple(kept.shop(number, f"9{number}0.00") for number in (2, 3, 4))

    assert "contratação pública" in alerts(derive(research(kept, sources=shops)))
    assert "contratação pública" not in alerts(derive(research(kept)))


def test_a_wide_spread_demands_a_critical_analysis(kept: Kept) -> None:
    wide = Rules(excessive_percent=None, unfeasible_percent=None)

    assert "análise crítica" in alerts(derive(research(kept, rules=wide)))
    assert "análise crítica" not in alerts(derive(research(kept)))


def test_official_prices_alone_do_not_pass_their_median(kept: Kept) -> None:
    one = kept.official()
    prices = (one, replace(one, key="b", price=D("900.00")), replace(one, key="c", price=D("1150.00")))

    above = derive(research(kept, sources=prices, rules=Rules(central=Central.MEAN)))
    at = derive(research(kept, sources=prices))

    assert "mediana" in alerts(above)
    assert "mediana" not in alerts(at)


def test_suppliers_need_a_reason(kept: Kept) -> None:
    supplier = kept.shop(2, "950.00", kind=SourceKind.SUPPLIER)

    asked = derive(research(kept, sources=(supplier,)))
    told = derive(research(kept, sources=(supplier,), suppliers_chosen_because="Atuam na região"))

    assert "escolha dos fornecedores" in alerts(asked)
    assert "escolha dos fornecedores" not in alerts(told)


def test_no_price_is_no_result_and_no_error(kept: Kept) -> None:
    report = derive(research(kept, sources=()))

    assert (report.result, report.total, report.valuation, report.figures) == (None, None, None, None)
    assert report_pdf.render(closed(research(kept, sources=())))
    assert report_xlsx.render(closed(research(kept, sources=())))


def test_every_refusal_has_words() -> None:
    assert set(REFUSALS) == set(Refusal)


def test_a_document_is_kept_as_json_and_is_the_same_again(kept: Kept) -> None:
    told = closed(research(kept), research(kept, number="2"))

    assert to_json(from_json(to_json(told))) == to_json(told)
    assert told.total == D("7698.88")
    assert fingerprint(told) != fingerprint(closed(research(kept)))


# — the files —


def text_of(content: bytes) -> str:
    opened = pypdfium2.PdfDocument(content)
    try:
        return " ".join(" ".join(each.get_textpage().get_text_range() for each in opened).split())
    finally:
        opened.close()


MUST_SHOW = (
    "Maria Pesquisadora", "17/11/2026 22:30:15 UTC", "Mediana", "70 % da média dos demais", "130 % da média dos demais",
    "Norma configurada pelo órgão", "PAT-0042", "Almoxarifado", "cadeira giratória presidente", "Fonte 5",
    "Excessivamente elevado", "Preço de parcela: 10 parcelas de 97,00", "R$ 943,40", "R$ 962,36", "IPCA",
    "Sistema oficial de preços", "Descartado", "R$ 3.849,44", "Valor do bem", "Reavaliação", "João Revisor",
    "Produto equivalente", "não há Chromium", "Resultado (MEDIAN) = 962,36", "(Ana)",
)  # fmt: skip


def test_the_pdf_shows_everything(kept: Kept) -> None:
    told = closed(research(kept))

    text = text_of(report_pdf.render(told))

    assert [each for each in MUST_SHOW if each not in text] == []
    assert fingerprint(told) in text
    for source in told.reports[0].research.sources:
        assert source.evidence
        assert source.evidence.sha256 in text.replace(" ", "")


def test_the_pdf_is_sound_and_carries_the_document_and_the_pictures(kept: Kept) -> None:
    told = closed(research(kept))

    content = report_pdf.render(told, {sha256(picture()): picture()})

    with Pdf.open(BytesIO(content)) as opened:
        assert opened.check_pdf_syntax() == []
        assert opened.attachments[report_pdf.ATTACHED].get_file().read_bytes() == to_json(told)
        images = [image for each in opened.pages for image in each.get_images().values()]
    assert len(images) == 1


def test_a_discarded_price_is_struck_out_in_the_pdf(kept: Kept) -> None:
    good = report_pdf.render(closed(research(kept, sources=research(kept).sources[:3])))
    bad = report_pdf.render(closed(research(kept)))

    assert good.count(b" l S") == 0
    assert bad.count(b" l S") == 2


def test_long_and_strange_texts_stay_on_the_page(kept: Kept) -> None:
    strange = "()\\ 漢字 \x00\x07 " + "semfim" * 400
    told = closed(research(kept, object=strange, justification="x" * 20_000))

    content = report_pdf.render(told)

    assert text_of(content)
    assert report_xlsx.render(told)


def test_the_workbook_shows_everything(kept: Kept) -> None:
    book = load_workbook(BytesIO(report_xlsx.render(closed(research(kept)))))

    text = " ".join(
        str(cell.value) for sheet in book for row in sheet.iter_rows() for cell in row if cell.value is not None
    )
    assert [each for each in MUST_SHOW if each not in text] == []
    assert [sheet.title for sheet in book if sheet.sheet_state == "visible"] == [
        "Mapa de apuração",
        "Fontes",
        "Memória de cálculo",
        "Método e parâmetros",
    ]


def test_the_map_has_one_column_per_source_and_strikes_out_what_is_discarded(kept: Kept) -> None:
    told = closed(research(kept), research(kept, number="2"))
    sheet = load_workbook(BytesIO(report_xlsx.render(told)))["Mapa de apuração"]
    rows = list(sheet.iter_rows())
    header = [cell.value for cell in rows[4]]

    assert header[:9] == ["Item", "Descrição", "Unidade", "Quantidade", *(f"Fonte {number}" for number in range(1, 6))]
    prices = rows[5][4:9]
    assert [cell.value for cell in prices] == [962.36, 950, 990, 1900, 970]
    assert [bool(cell.font.strike) for cell in prices] == [False, False, False, True, True]
    assert rows[6][7].value == "Excessivamente elevado"
    assert sheet.cell(row=sheet.max_row, column=header.index("Total") + 1).value == 7698.88


def test_a_title_is_never_a_formula(kept: Kept) -> None:
    told = closed(research(kept, object='=HYPERLINK("http://evil.example")'))

    cell = load_workbook(BytesIO(report_xlsx.render(told)))["Mapa de apuração"]["B6"]

    assert (cell.data_type, cell.value) == ("s", '=HYPERLINK("http://evil.example")')


@pytest.mark.parametrize("render", [report_pdf.render, report_xlsx.render])
def test_the_same_document_gives_the_same_bytes(kept: Kept, render: Any) -> None:
    assert render(closed(research(kept))) == render(from_json(to_json(closed(research(kept)))))


def test_no_article_is_printed_that_nobody_configured(kept: Kept) -> None:
    text = text_of(report_pdf.render(closed(research(kept, legal_basis=""))))

    assert "art." not in text.lower()


# — verified —


def files(kept: Kept) -> Mapping[str, bytes]:
    told = closed(research(kept))
    pictures = {sha256(picture()): picture()}
    return {"pdf": report_pdf.render(told, pictures), "xlsx": report_xlsx.render(told), "json": to_json(told)}


@pytest.mark.parametrize("kind", ["pdf", "xlsx", "json"])
async def test_a_true_report_holds(kept: Kept, kind: str) -> None:
    assert await verify(files(kept)[kind], kept) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"result":"962.36"', b'"result":"962.37"'),
        (b'"total":"3849.44"', b'"total":"3849.45"'),
        (b'"mean":"967.45"', b'"mean":"967.46"'),
        (b'"value":"731.39"', b'"value":"731.40"'),
        (b'"corrected":"962.36"', b'"corrected":"962.35"'),
        (b'"bound":', b'"bound_":'),
        (b'"discarded":"EXCESSIVE"', b'"discarded":null'),
        (b"Resultado (MEDIAN) = 962,36", b"Resultado (MEDIAN) = 962,37"),
    ],
)
async def test_one_cent_is_noticed(kept: Kept, old: bytes, new: bytes) -> None:
    content = to_json(closed(research(kept)))
    assert old in content

    assert await verify(content.replace(old, new, 1), kept)


async def test_a_report_that_is_consistent_and_not_what_the_evidence_says_is_noticed(kept: Kept) -> None:
    true = research(kept)
    forged = replace(true.sources[1], price=D("950.01"))
    told = closed(replace(true, sources=(true.sources[0], forged, *true.sources[2:])))

    problems = await verify(to_json(told), kept)

    assert [(each.where, each.what) for each in problems] == [
        ("item 1, source 2", "the report says 950.01, and its evidence says 950.00")
    ]


async def test_a_forged_official_price_is_noticed(kept: Kept) -> None:
    true = research(kept)
    told = closed(replace(true, sources=(replace(true.sources[0], price=D("943.41")), *true.sources[1:])))

    assert [each.where for each in await verify(to_json(told), kept)] == ["item 1, source 1"]


async def test_evidence_that_was_changed_or_is_gone_is_noticed(kept: Kept) -> None:
    content = files(kept)["json"]
    names = list(kept.blobs)

    kept.blobs[names[1]] += b" "
    del kept.blobs[names[0]]

    assert {each.where for each in await verify(content, kept)} >= {"item 1, source 1"}
    assert all("evidence" in each.what or "picture" in each.what for each in await verify(content, kept))


async def test_a_price_that_counts_without_evidence_is_noticed(kept: Kept) -> None:
    bare = kept.shop(2, "950.00", evidence=None, dated=NOW)
    by_hand = kept.shop(3, "960.00", evidence=None, dated=NOW, method=Method.MANUAL, by="Ana")

    problems = await verify(to_json(closed(research(kept, sources=(bare, by_hand)))), kept)

    assert [each.where for each in problems] == ["item 1, source 1"]


async def test_a_figure_that_was_changed_on_the_page_alone_is_noticed(kept: Kept) -> None:
    content = files(kept)["pdf"]
    changed = content.replace(b"(R$ 3.849,44)", b"(R$ 9.849,44)")
    assert changed != content

    assert [each.where for each in await verify(changed, kept)] == ["file"]


async def test_a_cell_that_was_changed_alone_is_noticed(kept: Kept) -> None:
    changed = BytesIO()
    with zipfile.ZipFile(BytesIO(files(kept)["xlsx"])) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"<v>3849.44</v>", b"<v>9849.44</v>"))

    assert [each.where for each in await verify(changed.getvalue(), kept)] == ["file"]


@pytest.mark.parametrize("content", [b"", b"{}", b"%PDF-1.7 nothing", b"PK nothing", b"[1, 2]", b"\xff\xfe"])
async def test_what_is_no_report_is_told(kept: Kept, content: bytes) -> None:
    with pytest.raises(ReportUnreadable):
        await verify(content, kept)


# — the writers —


def test_a_picture_of_another_kind_is_left_out() -> None:
    assert pdf.png(b"GIF89a") is None
    assert pdf.png(picture()[:20]) is None
    assert pdf.png(picture()[:24] + b"\x10" + picture()[25:]) is None


@pytest.mark.parametrize("text", ["", "uma", "uma linha que não cabe " * 9, "x" * 500])
def test_wrapped_text_keeps_every_letter_and_no_line_is_too_wide(text: str) -> None:
    lines = pdf.wrap(text, 100, 8)

    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(pdf.measure(line, 8) <= 100 for line in lines)

"""The pages of quotes as the server makes them: lists before they start, decisions with their reason, who sees what."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import Retoma
from retoma.model.ids import BatchId
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import MOST_BYTES
from retoma.pipelines.quotes.model import BatchStanding
from retoma.pipelines.quotes.pages.view import code_of, funnel_of, openable
from retoma.pipelines.quotes.ports import Market, Method, Refusal, SourceKind
from retoma.pipelines.quotes.stages import STEPS, ProcessingCheckpoint
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain
from retoma.web import packages
from retoma.web.words import phrases

from .conftest import House, Open

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
from market import Bill, Product, a_market  # isort: skip - the market is that of the pipeline's own tests
from pictures import png  # isort: skip

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language": "pt-BR"}
TWO = [Product("a", "100"), Product("b", "101"), Product("c", "102", refused=Refusal.SOLD_OUT), Product("d", "990")]
ASIDE = ("FIPE_SEARCH", "PRICE_EXTRACTION_PROGRESS")
LIST = "codigo;descricao;quantidade\n1;Mesa;2\n2;;1\n3;Cadeira;x\n4;Armário;1\n".encode()


@pytest.fixture
def given(tmp_path: Path) -> dict[type, Any]:
    return {Market: a_market(Bill(tmp_path / "bill.log"), TWO), BlobStore: FolderBlobs(tmp_path / "blobs")}


@pytest.fixture
def house(open_house: Open, given: dict[type, Any]) -> House:
    return open_house(extensions=[QUOTES], providers=given)


def work(house: House, given: dict[type, Any]) -> None:
    asyncio.run(drain(Retoma(settings=house.settings, extensions=[QUOTES], providers=given)))


def ask(house: House, question: Callable[[Quotes], Any]) -> Any:
    async def asked() -> Any:
        async with Retoma(settings=house.settings, extensions=[QUOTES]) as app:
            return await question(Quotes(app))

    return asyncio.run(asked())


def post(house: House, path: str, **options: Any) -> Any:
    return house.client.post(f"/cotacoes{path}", headers=HTML | options.pop("headers", {}), **options)


def get(house: House, path: str, **headers: str) -> str:
    shown = house.client.get(f"/cotacoes{path}", headers=HTML | headers)
    assert shown.status_code == 200, shown.text
    return str(shown.text)


def preview(house: House, content: bytes = LIST, name: str = "lista.csv", **fields: str) -> Any:
    return post(house, "/listas/previa", files={"arquivo": (name, content)}, data=fields)


def form_of(page: str) -> dict[str, str]:
    """What a browser would send back: hidden fields, and the columns that are chosen."""
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))
    for name, options in re.findall(r'<select id="\w+" name="(coluna_\w+)"[^>]*>(.*?)</select>', page):
        chosen = re.search(r'<option value="([^"]*)" selected>', options)
        hidden[name] = chosen[1] if chosen else "-"
    return hidden


def reviewed(house: House, given: dict[type, Any]) -> int:
    """A quote that waits for a person."""
    id = int(post(house, "/itens", data={"text": "Mesa de escritório"}).headers["location"].rpartition("/")[2])
    work(house, given)
    assert 'data-state="AWAITING_REVIEW"' in get(house, f"/itens/{id}")
    return id


# — words —


def test_every_stage_step_reason_kind_and_method_has_its_words() -> None:
    packages.serve([QUOTES])
    wanted = {f"quotes.stage.{each}" for each in ProcessingCheckpoint}
    wanted |= {f"quotes.step.{each}" for each in STEPS if STEPS[each] < 100}
    wanted |= {f"quotes.failure.{each}" for each in Refusal} | {f"quotes.kind.{each}" for each in SourceKind}
    wanted |= {f"quotes.method.{each}" for each in Method}

    assert wanted <= phrases("pt").keys(), wanted - phrases("pt").keys()


# — photographs —


def test_an_item_is_asked_for_with_its_photograph_which_its_page_shows_byte_for_byte(
    house: House, given: dict[type, Any]
) -> None:
    sent = post(house, "/itens", data={"text": "Mesa", "code": "7"}, files={"imagem": ("foto.jpg", png())})
    alone = post(house, "/itens", data={"text": ""}, files={"imagem": ("foto.jpg", png())})
    work(house, given)
    id = sent.headers["location"].rpartition("/")[2]
    page = get(house, f"/itens/{id}")
    image = house.client.get(f"/cotacoes/itens/{id}/imagem", headers=HTML)
    refused = get(house, f"/itens/{alone.headers['location'].rpartition('/')[2]}")

    assert f'href="/cotacoes/itens/{id}/imagem?numero=1"' in page
    assert hashlib.sha256(png()).hexdigest() in page
    assert (image.content, image.headers["content-type"]) == (png(), "image/png")
    assert "sandbox" in image.headers["content-security-policy"]
    assert "Nada foi consultado nem pago" in refused
    assert "RETOMA_CHAT" in refused


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"nada", "Não é uma imagem PNG"), (png(50_000, 50_000), "pixels demais"), (png()[:-20], "danificada")],
)
def test_a_photograph_that_is_refused_is_told_and_what_was_typed_is_kept(
    house: House, content: bytes, told: str, psql: psycopg.Connection
) -> None:
    answer = post(house, "/itens", data={"text": "Mesa azul", "code": "77"}, files={"imagem": ("f.png", content)})

    assert answer.status_code == 422
    assert told in answer.text
    assert "Mesa azul" in answer.text
    assert 'value="77"' in answer.text
    assert psql.execute("select count(*) from quotes.quote_requests").fetchone() == (0,)
    assert psql.execute("select count(*) from retoma.loose_blobs").fetchone() == (0,)


def test_a_form_that_is_refused_for_another_reason_leaves_no_photograph_behind(
    house: House, tmp_path: Path, psql: psycopg.Connection
) -> None:
    answer = post(house, "/itens", data={"text": "Mesa", "project": "999"}, files={"imagem": ("f.png", png())})

    assert answer.status_code == 422
    assert psql.execute("select count(*) from retoma.loose_blobs").fetchone() == (0,)
    assert [each for each in (tmp_path / "blobs").rglob("*") if each.is_file()] == []


def test_a_store_that_keeps_nothing_is_told_and_what_was_typed_is_kept(open_house: Open, tmp_path: Path) -> None:
    without = open_house(extensions=[QUOTES], providers={Market: a_market(Bill(tmp_path / "bill.log"))})

    answer = post(without, "/itens", data={"text": "Mesa azul"}, files={"imagem": ("f.png", png())})

    assert answer.status_code == 422
    assert "Não foi possível guardá-la" in answer.text
    assert "Mesa azul" in answer.text


def test_a_form_without_words_and_without_a_photograph_is_refused(house: House) -> None:
    empty = post(house, "/itens", data={"text": " "}, files={"imagem": ("", b"")})

    assert empty.status_code == 422
    assert "A cotação não foi pedida" in empty.text


# — what an asset is worth —

WORN = {"conservation": "REGULAR", "years_used": "3", "years_left": "6", "book_value": "50,00"}


@pytest.fixture
def enough(open_house: Open, tmp_path: Path) -> tuple[House, dict[type, Any]]:
    """A house whose market has prices enough."""
    given = {Market: a_market(Bill(tmp_path / "bill.log")), BlobStore: FolderBlobs(tmp_path / "blobs")}
    return open_house(extensions=[QUOTES], providers=given), given


def worn(house: House, given: dict[type, Any], **terms: Any) -> str:
    project = ask(house, lambda library: library.create_project("Reavaliação", **terms))
    sent = post(house, "/itens", data={"text": "Mesa", "project": str(project.id), **WORN})
    work(house, given)
    return f"/itens/{sent.headers['location'].rpartition('/')[2]}"


def test_a_quote_shows_market_price_each_factor_and_value_in_both_languages(
    enough: tuple[House, dict[type, Any]],
) -> None:
    house, given = enough
    path = worn(house, given, report={"factors": {}})
    portuguese, english = get(house, path), get(house, path, **{"Accept-Language": "en"})

    assert '<dd id="asset-value">R$ 79,04</dd>' in portuguese, "104,00 × 0,76"
    assert "R$ 104,00" in portuguese
    assert "0,7600" in portuguese
    assert portuguese.count("data-part=") == 3
    assert "Vida útil futura (VUF)" in portuguese
    assert "Reavaliação (R$ 29,04)" in portuguese
    assert '<dd id="asset-value">R$ 79.04</dd>' in english
    assert "Remaining life (VUF)" in english


def test_a_project_without_factors_says_that_no_value_was_calculated(enough: tuple[House, dict[type, Any]]) -> None:
    house, given = enough
    page = get(house, worn(house, given))

    assert "data-no-factors" in page
    assert 'id="asset-value"' not in page


def test_half_a_condition_is_told_and_what_was_typed_is_kept(house: House, psql: psycopg.Connection) -> None:
    answer = post(house, "/itens", data={"text": "Mesa azul", "conservation": "RUIM", "years_used": "3"})

    assert answer.status_code == 422
    assert "falta um deles" in answer.text
    assert "Mesa azul" in answer.text
    assert '<option value="RUIM" selected>' in answer.text
    assert psql.execute("select count(*) from quotes.quote_requests").fetchone() == (0,)


def test_the_preview_of_a_list_shows_the_condition_of_each_asset(house: House) -> None:
    content = "descricao;conservação;anos de uso;vida útil restante\nMesa;bom;2;8\nCadeira;bom;;\n".encode()

    shown = preview(house, content).text

    assert "Bom, 2 de uso, 8 restantes" in shown
    assert "vão juntos" in shown
    assert 'name="coluna_years_left"' in shown


# — lists —


def test_a_preview_shows_columns_rows_and_what_is_wrong_and_begins_nothing(house: House) -> None:
    shown = preview(house).text

    assert "2 itens serão cotados" in shown
    assert "Linha 3: falta a descrição" in shown
    assert "Linha 4: a quantidade não é um número" in shown
    assert '<option value="descricao" selected>' in shown
    assert ask(house, lambda quotes: quotes.batches()) == []
    assert ask(house, lambda quotes: quotes.quotes()) == []


def test_a_column_that_nobody_knows_is_chosen_by_a_person(house: House) -> None:
    content = b"X1;X2\nmesa de aco;7\ncadeira;8\n"
    asked = preview(house, content)
    assert asked.status_code == 422
    assert "Qual coluna tem a descrição?" in asked.text

    chosen = post(house, "/listas/previa", data=form_of(asked.text) | {"coluna_description": "X1", "coluna_code": "X2"})
    assert "2 itens serão cotados" in chosen.text
    begun = post(house, "/listas", data=form_of(chosen.text) | {"name": "Galpão"})

    id = int(begun.headers["location"].rpartition("/")[2])
    found = ask(house, lambda quotes: quotes.quotes(batch_id=id))
    assert sorted((each.codigo_item, each.input_text) for each in found) == [("7", "mesa de aco"), ("8", "cadeira")]
    assert ask(house, lambda quotes: quotes.batch(id)).name == "Galpão"


def test_a_column_that_is_wrong_is_taken_away(house: House) -> None:
    fields = form_of(preview(house, b"codigo;descricao;\nA;Mesa;\n").text) | {"coluna_code": "-"}
    begun = post(house, "/listas", data=fields)

    id = int(begun.headers["location"].rpartition("/")[2])
    assert [each.codigo_item for each in ask(house, lambda quotes: quotes.quotes(batch_id=id))] == [None]


def test_a_list_that_is_started_twice_is_one_batch(house: House) -> None:
    fields = form_of(preview(house).text)
    first, again = (post(house, "/listas", data=fields).headers["location"] for _ in range(2))

    assert first == again
    assert len(ask(house, lambda quotes: quotes.quotes())) == 2


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"  ", "Ela está vazia"),
        ("a.xls", b"\xd0\xcf\x11\xe0 old", "formato antigo do Excel"),
        ("a.xlsx", b"PK\x03\x04 broken", "Ela está danificada"),
        ("a.csv", b"\x00\x01\x02\x00", "Não é CSV nem XLSX"),
        ("a.csv", b"descricao\n" + b"x\n" * 10_001, "Ela tem mais de 10.000 itens"),
        ("a.csv", b"x" * (MOST_BYTES + 1), "Ela passa de 10 MB"),
    ],
)
def test_a_file_that_is_no_list_is_refused_with_the_reason(house: House, name: str, content: bytes, told: str) -> None:
    refused = preview(house, content, name)

    assert refused.status_code == 422
    assert told in refused.text


@pytest.mark.parametrize("fields", [{}, {"arquivo": "???"}, {"arquivo": base64.urlsafe_b64encode(b"no zlib").decode()}])
def test_a_form_without_its_file_is_refused(house: House, fields: dict[str, str]) -> None:
    assert 400 <= post(house, "/listas", data=fields).status_code < 500
    assert ask(house, lambda quotes: quotes.batches()) == []


def test_a_few_bytes_that_stand_for_very_many_are_not_unpacked(house: House) -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(b"a" * (4 * MOST_BYTES), 9)).decode()

    assert post(house, "/listas", data={"arquivo": bomb, "nome_arquivo": "a.csv"}).status_code == 422


@pytest.mark.parametrize("text", ["", "   ", "x" * 4001])
def test_an_item_without_a_description_comes_back_with_its_form(house: House, text: str) -> None:
    refused = post(house, "/itens", data={"text": text, "code": "77"})

    assert refused.status_code == 422
    assert 'value="77"' in refused.text
    assert ask(house, lambda quotes: quotes.quotes()) == []


@pytest.mark.parametrize("project", ["x", "9" * 30, "-1", "²", "12345"])
def test_a_project_that_there_is_not_brings_nothing_down(house: House, project: str) -> None:
    assert post(house, "/itens", data={"text": "Mesa", "project": project}).status_code == 422


# — a batch —


def test_a_batch_shows_its_funnel_and_costs_in_reais_only_where_a_rate_is_configured(
    house: House, given: dict[type, Any]
) -> None:
    places = []
    for name, terms in (("Sem taxa", {}), ("Com taxa", {"reais_per_dollar": "5.00"})):
        project = ask(house, lambda quotes, name=name, terms=terms: quotes.create_project(name, **terms))
        fields = form_of(preview(house).text) | {"project": str(project.id)}
        places.append(post(house, "/listas", data=fields).headers["location"].removeprefix("/cotacoes"))
    work(house, given)
    without, with_rate = (get(house, place) for place in places)

    assert "não tem cotação do dólar configurada" in without
    assert "não tem cotação do dólar configurada" not in with_rate
    assert 'data-provider="shopping"' in without
    for page in (without, with_rate):
        assert 'data-count="AWAITING_REVIEW"' in page
        assert "2 linhas não foram aceitas" in page
        reached = re.findall(r'data-rung="(\w+)".*?funnel-count"><strong>(\d+)<', page, re.DOTALL)
        assert dict(reached) == dict.fromkeys(("received", "understood", "searched", "reading", "valued", "ended"), "2")


def test_the_funnel_counts_who_came_so_far_and_who_is_there() -> None:
    standing = BatchStanding(
        batch_id=BatchId(1),
        batch_status="PROCESSING",
        total_items=6,
        completed_items=1,
        failed_items=0,
        status_distribution={},
        stuck_quotes=0,
        checkpoint_distribution={"INIT": 2, "FIPE_SEARCH": 1, "PRICE_EXTRACTION_PROGRESS": 2, "COMPLETED": 1},
        progress_percentage=0.0,
    )

    found = [(each.name, each.reached, each.here) for each in funnel_of(standing)]

    assert found == [
        ("received", 6, 2), ("understood", 4, 0), ("searched", 4, 1), ("reading", 3, 2), ("valued", 1, 0),
        ("ended", 1, 1),
    ]  # fmt: skip


def test_a_stuck_quote_is_listed_and_recovered_from_its_batch(house: House, psql: psycopg.Connection) -> None:
    place = post(house, "/listas", data=form_of(preview(house).text)).headers["location"].removeprefix("/cotacoes")
    lost = "update quotes.quote_requests set status = 'PROCESSING', worker_id = 'ana#1', started_at = now()"
    psql.execute(f"{lost}, last_heartbeat = now() - interval '11 minutes' where input_text = 'Mesa'".encode())
    shown = get(house, place)
    (id,) = re.findall(r'data-stuck="(\d+)"', shown)
    assert f'action="/cotacoes/itens/{id}/recuperar?de=lista"' in shown

    recovered = post(house, f"/itens/{id}/recuperar?de=lista")
    again = post(house, f"/itens/{id}/recuperar")

    assert recovered.headers["location"] == f"/cotacoes{place}?dito=recovered"
    assert "data-stuck" not in get(house, place)
    assert again.status_code == 409
    assert "Esta cotação não está travada" in again.text


def test_a_batch_is_cancelled_after_a_question(house: House) -> None:
    place = post(house, "/listas", data=form_of(preview(house).text)).headers["location"].removeprefix("/cotacoes")
    asked = post(house, f"{place}/cancelar")
    assert "Cancelar este lote de vez?" in asked.text
    assert 'data-state="PENDING"' in get(house, place)

    post(house, f"{place}/cancelar?sim=1")

    assert 'id="standing" class="stack" aria-label="Andamento" data-state="CANCELLED"' in get(house, place)


# — one quote, and decisions —


@pytest.mark.parametrize("reason", ["", "  ", "ok"])
@pytest.mark.parametrize("decision", ["aceitar", "recusar"])
def test_no_decision_goes_without_a_reason(house: House, given: dict[type, Any], decision: str, reason: str) -> None:
    id = reviewed(house, given)

    refused = post(house, f"/itens/{id}/{decision}", data={"reason": reason})

    assert refused.status_code == 422
    assert "nenhuma decisão fica sem motivo" in refused.text
    assert 'data-state="AWAITING_REVIEW"' in refused.text
    assert ask(house, lambda quotes: quotes.reviews(id)) == []


def test_what_was_decided_stands_on_the_page_with_who_and_why(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    post(house, f"/itens/{id}/recusar", data={"reason": "preços de outra região"})
    shown = get(house, f"/itens/{id}")
    late = post(house, f"/itens/{id}/aceitar", data={"reason": "serve"})

    assert "preços de outra região" in shown
    assert 'data-state="ERROR"' in shown
    assert late.status_code == 409
    assert "A cotação mudou enquanto isso" in late.text


def test_a_source_that_a_person_adds_counts_and_ends_the_review(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    said = {"title": "Mesa <b>1,2 m</b>", "price": "R$ 1.102,50", "kind": "SUPPLIER", "reason": "orçamento por e-mail"}
    said |= {"url": "https://loja.com.br/mesa"}
    for wrong in ({"price": "dez"}, {"price": "-1"}, {"price": "1e9999"}, {"title": " "}, {"kind": "X"},
                  {"url": "javascript:alert(1)"}, {"url": "http://[x"}, {"reason": ""}):  # fmt: skip
        refused = post(house, f"/itens/{id}/fontes", data=said | wrong)
        assert refused.status_code == 422, wrong
        assert "A fonte não foi acrescentada" in refused.text

    added = post(house, f"/itens/{id}/fontes", data=said)
    shown = get(house, added.headers["location"].removeprefix("/cotacoes"))

    assert "R$ 1.102,50" in shown
    assert "Mesa &lt;b&gt;1,2 m&lt;/b&gt;" in shown
    assert 'data-state="DONE"' in shown


def test_struck_out_sources_are_there_with_their_reason(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    shown = get(house, f"/itens/{id}")

    struck = shown.partition('id="struck"')[2]
    assert "<s>Mesa c</s>" in struck
    assert "Produto esgotado" in struck
    assert "Preço bom, mas distante" in struck
    assert f'href="/api/quotes/{id}/pdf"' in shown
    stages = re.findall(r'data-stage="(\w+)" data-moment="(\w+)"', shown)
    assert [name for name, _ in stages] == [each for each in ProcessingCheckpoint if each not in ASIDE]
    assert {state for _, state in stages} == {"done"}


def test_a_source_is_left_out_and_taken_back_with_reasons(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    source = ask(house, lambda quotes: quotes.sources(id))[0]
    place = f"/itens/{id}/fontes/{source.id}"

    post(house, f"{place}/descartar", data={"reason": "frete incluído"})
    assert "frete incluído" in get(house, f"/itens/{id}").partition('id="struck"')[2]
    assert post(house, f"{place}/descartar", data={"reason": "de novo"}).status_code == 409
    post(house, f"{place}/aproveitar", data={"reason": "sem frete"})

    decided = [(each.action, each.reason) for each in ask(house, lambda quotes: quotes.reviews(id))]
    assert decided == [("drop_source", "frete incluído"), ("take_source", "sem frete")]


def test_evidence_is_saved_and_never_shown_as_a_page_and_the_audit_has_it(
    house: House, given: dict[type, Any], psql: psycopg.Connection
) -> None:
    id = reviewed(house, given)
    source = next(each for each in ask(house, lambda quotes: quotes.sources(id)) if each.is_accepted)
    content = b"<html>100</html>"

    async def once() -> AsyncIterator[bytes]:
        yield content

    missing = house.client.get(f"/cotacoes/itens/{id}/fontes/{source.id}/evidencia", headers=HTML)
    asyncio.run(given[BlobStore].put(source.evidence_blob, once()))
    sent = house.client.get(f"/cotacoes/itens/{id}/fontes/{source.id}/evidencia", headers=HTML)

    assert missing.status_code == 404
    assert sent.content == content
    assert hashlib.sha256(sent.content).hexdigest() == source.evidence_sha256
    assert sent.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in sent.headers["content-security-policy"]
    looked = psql.execute("select count(*) from retoma.audit where outcome = 'looked' and route like '%evidencia'")
    assert looked.fetchone() == (1,)
    assert house.client.get(f"/cotacoes/itens/{id + 9}/fontes/{source.id}/evidencia", headers=HTML).status_code == 404


def test_who_may_only_look_sees_prices_but_no_form_and_no_evidence(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    key = house.key("read")
    shown = get(house, f"/itens/{id}", **key)
    source = ask(house, lambda quotes: quotes.sources(id))[0]

    assert "R$ 100,00" in shown
    assert '<form method="post" action="/cotacoes' not in shown
    assert "/evidencia" not in shown
    assert "permite ver, mas não pedir" in get(house, "/", **key)
    for path in (f"/itens/{id}/aceitar", f"/itens/{id}/recuperar", "/listas/previa"):
        assert post(house, path, headers=key, data={"reason": "serve"}).status_code == 403
    evidence = house.client.get(f"/cotacoes/itens/{id}/fontes/{source.id}/evidencia", headers=HTML | key)
    assert evidence.status_code == 403


def test_a_key_for_another_pipeline_sees_none_of_it(house: House) -> None:
    key = house.key("read", "submit", pipelines=("double",))

    for path in ("/", "/itens", "/listas"):
        assert house.client.get(f"/cotacoes{path}", headers=HTML | key).status_code == 403


def test_another_site_cannot_decide(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    sent = post(house, f"/itens/{id}/aceitar", data={"reason": "serve"}, headers={"Sec-Fetch-Site": "cross-site"})

    assert sent.status_code == 403
    assert ask(house, lambda quotes: quotes.reviews(id)) == []


@pytest.mark.parametrize("path", ["/itens/999", "/listas/999", "/itens/999/cancelar?sim=1", "/itens/999/aceitar"])
def test_what_is_not_there_is_404(house: House, path: str) -> None:
    if path.count("/") > 2:
        assert post(house, path, **({"data": {"reason": "serve"}} if "aceitar" in path else {})).status_code == 404
    else:
        assert house.client.get(f"/cotacoes{path}", headers=HTML).status_code == 404


def test_a_quote_that_failed_is_quoted_again_once(house: House, given: dict[type, Any]) -> None:
    id = reviewed(house, given)
    post(house, f"/itens/{id}/recusar", data={"reason": "preços de outra região"})

    new = post(house, f"/itens/{id}/refazer")
    again = post(house, f"/itens/{id}/refazer")

    shown = get(house, new.headers["location"].removeprefix("/cotacoes"))
    assert f'href="/cotacoes/itens/{id}"' in shown
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("message", "code"), [("no_prices: none.", "no_prices"), ("Boom: x", ""), (None, ""), ("no colon", "")]
)
def test_the_code_of_a_message_is_its_first_word(message: str | None, code: str) -> None:
    assert code_of(message) == code


@pytest.mark.parametrize("url", [None, "", "javascript:alert(1)", "data:text/html,x", "//x.com"])
def test_only_addresses_of_the_web_are_links(url: str | None) -> None:
    assert not openable(url)

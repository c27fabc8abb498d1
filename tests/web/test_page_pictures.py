"""The picture of a page at the review desk, over HTTP: who gets it, how it is kept, and what is said without one."""

from __future__ import annotations

import io
from pathlib import Path

import psycopg
import pytest

from retoma.pipelines import CLASSIFICATION
from retoma.providers import BlobStore

from ..corpus import bad_files  # noqa: TID252 - the corpus is that of all tests
from ..local.test_pictures import book  # noqa: TID252 - a PDF of several pages
from .archive import HTML
from .conftest import House, Open
from .doubtful_stage import PAGES, judge, unsure

Image = pytest.importorskip("PIL.Image")

ROUTE = "GET /classificador/api/execucoes/{id}/resultados/{result}/pagina.png"


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return unsure(tmp_path / "blobs")


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[CLASSIFICATION], providers=given)


def place(execution: int, result: int) -> str:
    return f"/classificador/api/execucoes/{execution}/resultados/{result}/pagina.png"


def desk(house: House, language: str) -> str:
    """The only thing that waits, as its page shows it."""
    [found] = house.get("/reviews").json()["reviews"]
    page = house.client.get(f"/console/review/{found['id']}", headers={**HTML, "Accept-Language": language})
    assert page.status_code == 200
    return page.text


def test_a_reviewer_gets_the_page_and_the_look_is_in_the_audit(
    house: House, given: dict[type, object], psql: psycopg.Connection
) -> None:
    execution, [result] = judge(house, given, ("autos.pdf", book(*PAGES)))
    seen, blind = house.key("read", "review", "content:read"), house.key("read", "review")
    address = place(execution, result)

    shown = house.client.get(address, headers=seen)
    refused = house.client.get(address, headers=blind)
    again = house.client.get(address, headers={**seen, "If-None-Match": shown.headers["etag"]})

    assert (shown.status_code, shown.headers["content-type"]) == (200, "image/png")
    assert shown.headers["cache-control"].startswith("private")
    assert shown.headers["content-disposition"] == f'inline; filename="{result}-2.png"'
    with Image.open(io.BytesIO(shown.content)) as image:
        assert image.width > 800
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_required")
    assert (again.status_code, again.content) == (304, b"")
    looks = psql.execute("select route from retoma.audit where outcome = 'looked' order by id").fetchall()
    assert looks.count((ROUTE,)) == 1, "what is told to be as it was shows nothing"


def test_a_result_is_only_found_in_its_own_execution_and_by_who_may_see_it(
    house: House, given: dict[type, object]
) -> None:
    execution, [result] = judge(house, given, ("autos.pdf", book(*PAGES)))
    mine, other = (house.key("read", "content:read", pipelines=each) for each in ((), ("documents",)))

    answers = [
        house.client.get(place(execution, result + 1), headers=mine),
        house.client.get(place(execution + 1, result), headers=mine),
        house.client.get(place(execution, result), headers=other),
    ]

    assert [each.status_code for each in answers] == [404, 404, 404]


def test_the_desk_shows_the_page_beside_the_text(house: House, given: dict[type, object]) -> None:
    execution, [result] = judge(house, given, ("autos.pdf", book(*PAGES)))

    page = desk(house, "en")

    assert f'src="{place(execution, result)}"' in page
    assert '<mark id="passage">julgo procedente o pedido</mark>' in page
    [found] = house.post("/reviews/next", {}).json()["reviews"]
    assert found["evidence"]["image"] == place(execution, result)


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "Pages of docx files are not drawn; this is the text that was read."),
        ("pt-BR", "Páginas de arquivos docx não são desenhadas; este é o texto que foi lido."),
    ],
)
def test_without_a_picture_the_desk_says_why(language: str, said: str, house: House, given: dict[type, object]) -> None:
    words = bad_files.docx_of(bad_files.document(bad_files.paragraph(" ".join(PAGES))))
    judge(house, given, ("autos.docx", words))

    page = desk(house, language)

    assert said in page
    assert "review-image" not in page
    assert "Ante o exposto" in page


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "The page is not shown: the file is not in the store any more."),
        ("pt-BR", "A página não é mostrada: o arquivo já não está guardado."),
    ],
)
def test_a_page_that_cannot_be_drawn_is_a_problem_in_a_sentence(
    language: str, said: str, house: House, given: dict[type, object], psql: psycopg.Connection
) -> None:
    execution, [result] = judge(house, given, ("autos.pdf", book(*PAGES)))
    [[blob]] = psql.execute("select blob from retoma.project_documents").fetchall()
    given[BlobStore].path(blob).unlink()  # type: ignore[attr-defined]

    told = house.client.get(place(execution, result), headers={"Accept-Language": language})

    assert (told.status_code, told.json()["code"], told.json()["detail"]) == (422, "page_unshown", said)

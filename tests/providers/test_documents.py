"""Documents handed in, asked for, and never paid twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from asking import KEY

from retoma.providers import (
    AnswerUnreadable,
    Extraction,
    Extractor,
    Field,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
    Table,
)
from retoma.providers.azure_documents import AzureExtractor
from retoma.providers.deferred import Pending, ResultLost, Submitter
from retoma.testing.wire import Fault, Served


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "contrato.pdf"
    path.write_bytes(b"%PDF-1.7 and more")
    return path


@pytest.fixture
async def extractor(services: Served) -> AsyncIterator[AzureExtractor]:
    extractor = AzureExtractor(key=KEY, endpoint=services.url, features=["keyValuePairs"], pause=0.01)
    yield extractor
    await extractor.aclose()


async def fetched(extractor: AzureExtractor, operation: str) -> Extraction:
    """What is there in the end, however often one has to look."""
    while isinstance(found := await extractor.look(operation, timeout=20), Pending):
        pass
    return found


def times(services: Served, route: str) -> int:
    return len([each for each in services.heard() if route in each["path"]])


async def test_a_document_is_read_with_its_tables_and_fields(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    found = await extractor.extract(file, kind="pdf", timeout=20)

    assert isinstance(extractor, Extractor)
    assert isinstance(extractor, Submitter)
    assert found.text == "Contrato de locação 🏠\nRua A, 10\fTotal\f"
    assert {page.source for page in found.pages} == {"ocr"}
    assert found.tables == [Table(rows=[["Valores", ""], ["Aluguel", "1.200,00"]], page=2)]
    assert found.fields == [
        Field(name="Locador:", value="Ana", confidence=0.93, page=1),
        Field(name="CPF:", value="", confidence=0.4, page=1),
    ]
    assert found.reader == "prebuilt-layout"
    assert found.usage.units == 3
    assert json.loads(found.raw or "")["status"] == "succeeded"
    asked = services.heard()[0]
    assert asked["body"] == "%PDF-1.7 and more"
    assert asked["query"]["features"] == "keyValuePairs"


async def test_after_a_crash_the_result_is_asked_for_and_nothing_is_handed_in_again(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    operation = await extractor.submit(file, kind="pdf", timeout=20)
    another = AzureExtractor(key=KEY, endpoint=services.url, pause=0.01)  # as after a restart

    found = await fetched(another, operation)
    again = await fetched(another, operation)

    await another.aclose()
    assert found == again
    assert times(services, ":analyze") == 1


async def test_a_result_that_is_not_there_yet_can_be_looked_for_later(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    operation = await extractor.submit(file, kind="pdf", timeout=20)
    services.tell(Fault(kind="answer", body='{"status": "running"}', path="/analyzeResults/", times=None))

    assert await extractor.look(operation, timeout=20) == Pending(seconds=0.01)
    assert times(services, "/analyzeResults/") == 1, "a look is one request"
    with pytest.raises(ProviderTimeout) as caught:
        await extractor.extract(file, kind="pdf", timeout=0.3)
    assert caught.value.paid is None

    services.tell()

    assert (await fetched(extractor, operation)).pages


@pytest.mark.parametrize("status", [404, 410])
async def test_a_result_that_is_kept_no_more_is_lost_and_may_have_been_billed(
    extractor: AzureExtractor, services: Served, file: Path, status: int
) -> None:
    operation = await extractor.submit(file, kind="pdf", timeout=20)
    said = json.dumps({"error": {"code": "NotFound", "message": "Resource not found."}})
    services.tell(Fault(kind="answer", status=status, body=said, path="/analyzeResults/"))

    with pytest.raises(ResultLost, match="Resource not found") as caught:
        await extractor.look(operation, timeout=20)

    assert (caught.value.status, caught.value.paid) == (status, None)


async def test_a_look_that_is_refused_says_nothing_of_what_was_billed(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    operation = await extractor.submit(file, kind="pdf", timeout=20)
    services.tell(Fault(kind="answer", status=400, path="/analyzeResults/"))

    with pytest.raises(RequestRejected) as caught:
        await extractor.look(operation, timeout=20)

    assert caught.value.paid is None


async def test_a_limit_while_waiting_does_not_lose_the_document(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    operation = await extractor.submit(file, kind="pdf", timeout=20)
    services.tell(Fault(kind="answer", status=429, headers={"retry-after": "3"}, path="/analyzeResults/"))

    with pytest.raises(RateLimited) as caught:
        await extractor.look(operation, timeout=20)

    assert caught.value.retry_after == 3
    assert (await fetched(extractor, operation)).pages


async def test_how_long_to_wait_is_up_to_the_service(extractor: AzureExtractor, services: Served, file: Path) -> None:
    operation = await extractor.submit(file, kind="pdf", timeout=20)
    services.tell(Fault(kind="answer", body='{"status": "notStarted"}', headers={"retry-after": "60"}, times=None))

    assert await extractor.look(operation, timeout=20) == Pending(seconds=60)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "InvalidRequest", "innererror": {"code": "InvalidContent", "message": "Corrupt"}}, RequestRejected),
        ({"code": "InternalServerError", "message": "An unexpected error occurred."}, ResultLost),
        (None, ResultLost),
    ],
)
async def test_a_failed_analysis_blames_who_is_to_blame(
    extractor: AzureExtractor, services: Served, file: Path, error: object, kind: type[Exception]
) -> None:
    body = json.dumps({"status": "failed", "error": error})
    services.tell(Fault(kind="answer", body=body, path="/analyzeResults/"))

    with pytest.raises(kind) as caught:
        await extractor.extract(file, kind="pdf", timeout=20)

    assert type(caught.value) is kind


async def test_a_success_without_a_result_is_not_an_answer(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    services.tell(Fault(kind="answer", body='{"status": "succeeded"}', path="/analyzeResults/"))

    with pytest.raises(AnswerUnreadable, match="without a result"):
        await extractor.extract(file, kind="pdf", timeout=20)


async def test_a_202_that_leads_nowhere_is_not_an_answer(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    services.tell(Fault(kind="answer", status=202, body=" ", path=":analyze"))

    with pytest.raises(AnswerUnreadable, match="where the result will be"):
        await extractor.extract(file, kind="pdf", timeout=20)


async def test_what_the_service_cannot_read_is_not_sent(
    extractor: AzureExtractor, services: Served, file: Path
) -> None:
    with pytest.raises(RequestRejected, match="epub"):
        await extractor.submit(file, kind="epub", timeout=20)

    assert services.heard() == []


@pytest.mark.parametrize(
    "operation",
    [
        "http://elsewhere.example/steal",
        "//elsewhere.example/x",
        "documentModels/m/analyzeResults/../../x?api-version=1",
    ],
)
async def test_the_key_goes_to_no_other_address(extractor: AzureExtractor, services: Served, operation: str) -> None:
    with pytest.raises(RequestRejected, match="not what submit"):
        await extractor.look(operation, timeout=20)

    assert services.heard() == []


async def test_a_large_document_is_sent_whole(extractor: AzureExtractor, services: Served, file: Path) -> None:
    file.write_bytes(b"%PDF" * 1_000_000)

    await extractor.submit(file, kind="pdf", timeout=20)

    assert services.heard()[0]["headers"]["content-length"] == "4000000"
    assert len(services.heard()[0]["body"]) == 4_000_000


async def test_a_file_that_is_not_there_is_the_callers_own_error(extractor: AzureExtractor, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await extractor.submit(tmp_path / "nothing.pdf", kind="pdf", timeout=20)

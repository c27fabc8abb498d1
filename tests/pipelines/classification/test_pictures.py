"""The page of a judged document; and the blocks of pictures.sql."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from retoma import Retoma, Settings
from retoma.bench.evaluation import samples
from retoma.model.batch import Batch
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification import pictures
from retoma.pipelines.classification.library import Classification
from retoma.providers import BlobStore, Classifier, Extraction, Extractor, Label, Page, Verdict
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain

from ...corpus import bad_files  # noqa: TID252 - the corpus is that of all tests
from ...local.test_pictures import PAGES, book  # noqa: TID252 - a PDF of several pages

SCANNED = b"%scanned\n"
QUOTE = "julgo procedente o pedido"
LONG = [f"{text} Este é o texto da página, que tem de ser longo o bastante para ser julgado." for text in PAGES]


class Unsure(LocalClassifier):
    """A classifier that is never sure."""

    async def classify(self, texts: Sequence[str], labels: Sequence[Label], *, timeout: float) -> list[Verdict]:
        found = await super().classify(texts, labels, timeout=timeout)
        return [replace(each, confidence="baixa", quote=QUOTE) for each in found]


class Eyes(LocalExtractor):
    """Reads as OCR would: pages of which the file itself has no text."""

    provider = "eyes"

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        if not file.read_bytes().endswith(SCANNED):
            return await super().extract(file, kind=kind, timeout=timeout)
        pages = tuple(Page(number=number, text=text, source="ocr") for number, text in enumerate(LONG, start=1))
        return Extraction(pages=pages, reader="eyes")


@pytest.fixture
async def library(settings: Settings, tmp_path: Path) -> AsyncIterator[Classification]:
    providers: dict[type, object] = {
        Extractor: Eyes(),
        Classifier: Unsure(Lexical()),
        BlobStore: FolderBlobs(tmp_path / "blobs"),
    }
    async with Retoma(settings=settings, extensions=[CLASSIFICATION], providers=providers) as app:
        yield Classification(app)


async def judged(library: Classification, name: str, content: bytes) -> tuple[Batch, int]:
    """An execution of one document, and its result."""
    project = await library.create_project("Lote")
    await library.add_document(project.id, name, content)
    batch = await library.start(project.id)
    await drain(library.app)
    [result] = await library.results(batch.id)
    assert result.state == "completed", result.error
    return batch, result.id


async def evidence(library: Classification) -> Any:
    [found] = await library.app.reviews.next("ana")
    return found.evidence


class TestSource:
    async def test_the_file_and_the_words_of_a_result_are_found_in_its_own_execution(
        self, library: Classification
    ) -> None:
        batch, id = await judged(library, "autos.pdf", book(*LONG))

        [found] = await library.app.fetch(pictures.source(batch.id, id))

        assert (found.kind, found.words, found.name, found.text_source) == ("pdf", QUOTE, "autos.pdf", "pdf")
        assert found.blob is not None
        assert await library.app.fetch(pictures.source(batch.id + 1, id)) == []

    async def test_a_file_that_is_not_the_judged_one_is_not_named(self, library: Classification) -> None:
        batch, id = await judged(library, "autos.pdf", book(*LONG))
        async with library.app.transaction() as conn:
            await conn.execute("update retoma.project_documents set sha256 = 'another'")

        [found] = await library.app.fetch(pictures.source(batch.id, id))

        assert found.blob is None
        with pytest.raises(pictures.PageUnshown, match="not the one that was judged"):
            await pictures.page_of(library.app, found)
        told = await evidence(library)
        assert (told.image, told.no_image) == (
            None,
            "The file is not the one that was judged; this is the text that was.",
        )


async def test_the_page_with_the_deciding_words_is_drawn(library: Classification) -> None:
    batch, id = await judged(library, "autos.pdf", book(*LONG))

    found = await pictures.page_of(library.app, await library.picture_source(batch.id, id))

    assert (found.number, found.pages, found.found) == (2, 3, True)
    told = await evidence(library)
    assert told.image == f"/classificador/api/execucoes/{batch.id}/resultados/{id}/pagina.png"
    assert told.no_image is None


async def test_of_a_scan_the_page_is_the_one_on_which_the_words_were_read(library: Classification) -> None:
    batch, id = await judged(library, "scan.pdf", samples.write_pdf([b""] * 3) + SCANNED)

    source = await library.picture_source(batch.id, id)
    found = await pictures.page_of(library.app, source)

    assert source.text_source == "ocr"
    assert (found.number, found.pages) == (2, 3)


@pytest.mark.parametrize(("name", "why"), [("a.txt", None), ("a.docx", "Pages of docx files are not drawn")])
async def test_what_has_no_pages_has_no_picture(name: str, why: str | None, library: Classification) -> None:
    words = bad_files.docx_of(bad_files.document(bad_files.paragraph(" ".join(LONG))))
    batch, id = await judged(library, name, words if name.endswith("docx") else " ".join(LONG).encode())

    told = await evidence(library)

    assert (told.image, (told.no_image or "").partition(";")[0]) == (None, why or "")
    with pytest.raises(pictures.PageUnshown):
        await pictures.page_of(library.app, await library.picture_source(batch.id, id))


async def test_a_file_that_was_changed_or_removed_in_the_store_is_not_drawn(library: Classification) -> None:
    batch, id = await judged(library, "autos.pdf", book(*LONG))
    source = await library.picture_source(batch.id, id)
    assert source.blob is not None
    path = library.app.provider(BlobStore).path(source.blob)  # type: ignore[attr-defined]

    path.chmod(0o600)
    path.write_bytes(book("Outro documento."))
    with pytest.raises(pictures.PageUnshown, match="not the one that was received"):
        await pictures.page_of(library.app, source)
    path.unlink()
    with pytest.raises(pictures.PageUnshown, match="not in the store any more"):
        await pictures.page_of(library.app, source)


def test_the_tag_changes_with_what_the_picture_shows() -> None:
    one = pictures.Source(1, 1, "a.pdf", "words", "beginning", "pdf", "abc", "pdf", "blob")  # type: ignore[arg-type]

    assert one.tag == replace(one, blob="elsewhere").tag
    assert len({one.tag, replace(one, quote="others").tag, replace(one, sha256="abd").tag}) == 3

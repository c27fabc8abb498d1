"""A page as a picture: the page on which the words stand, bounded, and with the words marked."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest

from retoma.bench.evaluation import samples
from retoma.errors import ConfigurationError
from retoma.isolate import shutdown
from retoma.providers.local.errors import DocumentDamaged, DocumentEncrypted, ImageTooLarge, ParserTimeout
from retoma.providers.local.pictures import Drawn, drawn
from retoma.providers.local.readers import picture

from ..corpus import bad_files  # noqa: TID252 - the corpus is that of all tests

pytest.importorskip("pypdfium2")
Image = pytest.importorskip("PIL.Image")

PAGES = ["Capa do processo.", "Ante o exposto, julgo procedente o pedido e condeno o réu às custas.", "Certidão."]


def book(*pages: str) -> bytes:
    """A PDF with these pages."""
    made = io.BytesIO()
    with pikepdf.new() as whole:
        for text in pages:
            with pikepdf.open(io.BytesIO(samples.pdf(text))) as one:
                whole.pages.append(one.pages[0])
        whole.save(made)
    return made.getvalue()


def kept(folder: Path, content: bytes, name: str = "a.pdf") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def pixels(found: Drawn) -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(found.png)) as image:
        assert (image.format, image.mode) == ("PNG", "RGB")
        return np.asarray(image)


def tinted(found: Drawn) -> int:
    """How many pixels have the colour of the mark."""
    return int((pixels(found) == np.array(picture._TINT)).all(axis=2).sum())


async def test_the_page_is_the_one_on_which_the_words_stand_and_they_are_marked(tmp_path: Path) -> None:
    file = kept(tmp_path, book(*PAGES))

    found = await drawn(file, "pdf", words="julgo  procedente\no PEDIDO")
    plain = await drawn(file, "pdf", words="julgo procedente o pedido", mark=False)

    assert (found.number, found.pages, found.found) == (2, 3, True)
    assert tinted(found) > 200
    assert (plain.number, tinted(plain)) == (2, 0)


async def test_words_that_go_on_overleaf_lead_to_the_page_with_most_of_them(tmp_path: Path) -> None:
    file = kept(tmp_path, book("Nada.", "a citação do réu e a procedência de todos os pedidos", "nestes termos"))

    found = await drawn(file, "pdf", words="a citação do réu e a procedência de todos os pedidos, nestes termos")

    assert (found.number, found.found) == (2, True)


async def test_words_that_are_nowhere_lead_to_the_first_page_and_that_is_said(tmp_path: Path) -> None:
    file = kept(tmp_path, book(*PAGES))

    found = await drawn(file, "pdf", words="uma frase que ninguém escreveu")
    told = await drawn(file, "pdf", words="uma frase que ninguém escreveu", number=3)

    assert (found.number, found.found, tinted(found)) == (1, False, 0)
    assert (told.number, told.found) == (3, True)


async def test_a_turned_page_is_marked_where_its_words_are(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with pikepdf.open(io.BytesIO(book(*PAGES))) as pdf:
        pdf.pages[1].rotate(90, relative=False)
        pdf.save(whole)

    found = await drawn(kept(tmp_path, whole.getvalue()), "pdf", words="julgo procedente")

    seen = pixels(found)
    marked = np.argwhere((seen == np.array(picture._TINT)).all(axis=2))
    down, across = np.ptp(marked, axis=0)
    assert seen.shape[1] > seen.shape[0], "it lies"
    assert down > 2 * across, "and its line runs downwards"


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (14_400, 20), (1, 1)])
async def test_no_page_has_more_pixels_than_are_allowed(width: int, height: int, tmp_path: Path) -> None:
    whole = io.BytesIO()
    with pikepdf.new() as pdf:
        pdf.add_blank_page().mediabox = [0, 0, width, height]
        pdf.save(whole)

    seen = pixels(await drawn(kept(tmp_path, whole.getvalue()), "pdf"))

    assert seen.shape[0] * seen.shape[1] <= picture.PIXELS * 1.01
    assert max(seen.shape) <= 8_001


@pytest.mark.parametrize("kind", ["png", "jpg", "tiff"])
async def test_a_picture_is_shown_smaller_where_it_is_large(kind: str, tmp_path: Path) -> None:
    made = io.BytesIO()
    Image.new("RGB", (4_000, 3_000), (0, 128, 255)).save(made, {"jpg": "jpeg"}.get(kind, kind))

    found = await drawn(kept(tmp_path, made.getvalue(), f"a.{kind}"), kind)

    seen = pixels(found)
    assert seen.shape[0] * seen.shape[1] <= picture.PIXELS
    assert seen.shape[1] / seen.shape[0] == pytest.approx(4 / 3, abs=0.01)
    assert seen.mean(axis=(0, 1)) == pytest.approx([0, 128, 255], abs=6)


async def test_of_a_tiff_with_several_pages_the_one_asked_for_is_shown(tmp_path: Path) -> None:
    made = io.BytesIO()
    first, second = (Image.new("RGB", (30, 20), colour) for colour in ("red", "blue"))
    first.save(made, "tiff", save_all=True, append_images=[second])

    found = await drawn(kept(tmp_path, made.getvalue(), "a.tiff"), "tiff", number=2)

    assert (found.number, found.pages) == (2, 2)
    assert pixels(found)[0, 0].tolist() == [0, 0, 255]


@pytest.mark.parametrize(
    ("content", "kind", "error"),
    [
        (bad_files.locked_pdf(), "pdf", DocumentEncrypted),
        (b"%PDF-1.4\nnothing that anybody could read", "pdf", DocumentDamaged),
        (bad_files.pageless_pdf(), "pdf", DocumentDamaged),
        (bad_files.png(60_000, 60_000), "png", ImageTooLarge),
        (b"\x89PNG\r\n\x1a\nno", "png", DocumentDamaged),
    ],
    ids=["locked", "broken", "pageless", "huge", "cut"],
)
async def test_what_cannot_be_drawn_says_why(content: bytes, kind: str, error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        await drawn(kept(tmp_path, content, f"a.{kind}"), kind)


async def test_a_page_that_takes_too_long_ends_alone(tmp_path: Path) -> None:
    endless = kept(tmp_path, samples.write_pdf([b"0 0 m 595 842 l S " * 2_000_000]), "endless.pdf")

    with pytest.raises(ParserTimeout):
        await drawn(endless, "pdf", timeout=0.5)

    assert (await drawn(kept(tmp_path, book(*PAGES)), "pdf")).pages == 3


async def test_without_its_libraries_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/PIL.py").write_text("raise ModuleNotFoundError('no', name='PIL')")
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))
    shutdown()  # a child that has drawn before has it

    with pytest.raises(ConfigurationError, match="PIL is not installed"):
        await drawn(kept(tmp_path, bad_files.white_png(), "a.png"), "png")

    shutdown()

"""Pictures of text are read; and where nobody can read them, that is said and not passed over."""

import io
import os
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest

from retoma.bench.evaluation import samples
from retoma.bench.evaluation.accuracy import character_errors
from retoma.isolate import configure, shutdown
from retoma.providers.local import LocalExtractor
from retoma.providers.local.errors import OcrUnavailable
from retoma.providers.local.readers import engines, ocr
from retoma.providers.local.trail import Trail

pypdfium2 = pytest.importorskip("pypdfium2")
pytest.importorskip("rapidocr")
Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.timeout(600)

TEXT = "CONTRATO DE LOCAÇÃO\nO aluguel é de R$ 1.500,00, à razão de 10% de multa.\nSão Paulo, três de março."


@pytest.fixture(autouse=True)
def one_child() -> Iterator[None]:
    """A new one for each test, which sees the PATH of that test."""
    shutdown()
    configure(children=1)
    yield
    shutdown()
    configure(children=os.cpu_count() or 1)


@pytest.fixture
def without_tesseract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def without_rapidocr(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A rapidocr that cannot be loaded stands before the real one, as after an install that went wrong."""
    (tmp_path / "broken/rapidocr").mkdir(parents=True)
    (tmp_path / "broken/rapidocr/__init__.py").write_text("raise ImportError('libGL.so.1: cannot open shared object')")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "broken"), *sys.path])


@pytest.fixture
def tesseract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program that takes what tesseract takes; what it reads is the size of the picture."""
    program = tmp_path / "bin/tesseract"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "if sys.argv[1:] == ['--list-langs']: print('List of available languages (2):\\neng\\npor'); sys.exit()\n"
        "assert sys.argv[2:] == ['stdout', '-l', 'por+eng', '--dpi', '200'], sys.argv\n"
        "print('lido por tesseract', *open(sys.argv[1], 'rb').readline().decode().split()[1:3])\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent))


def picture(text: str, *, mode: str = "L", kind: str = "PNG") -> bytes:
    pdf = pypdfium2.PdfDocument(samples.pdf(text))
    image = pdf[0].render(scale=200 / 72, crop=(0, 560, 0, 0)).to_pil().convert(mode)
    pdf.close()
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def scanned_pdf(text: str) -> bytes:
    buffer = io.BytesIO()
    Image.open(io.BytesIO(picture(text))).save(buffer, "PDF", resolution=200)
    return buffer.getvalue()


async def read(content: bytes, kind: str, tmp_path: Path):
    file = tmp_path / f"scan.{kind}"
    file.write_bytes(content)
    return await LocalExtractor().extract(file, kind=kind, timeout=200)


@pytest.mark.usefixtures("without_tesseract")
async def test_a_picture_is_read_with_its_accents(tmp_path: Path) -> None:
    reading = await read(picture(TEXT), "png", tmp_path)

    assert reading.reader == "rapidocr"
    assert [page.source for page in reading.pages] == ["ocr"]
    assert character_errors(TEXT, reading.text) < 0.02
    assert reading.text.count("\n") == 2


@pytest.mark.usefixtures("without_tesseract")
async def test_black_letters_on_a_transparent_picture_are_seen(tmp_path: Path) -> None:
    grey = Image.open(io.BytesIO(picture(TEXT)))
    clear = Image.new("LA", grey.size, (0, 0))
    clear.putalpha(grey.point(lambda value: 255 - value))
    buffer = io.BytesIO()
    clear.save(buffer, "PNG")

    assert character_errors(TEXT, (await read(buffer.getvalue(), "png", tmp_path)).text) < 0.05


@pytest.mark.usefixtures("without_tesseract")
async def test_only_the_scanned_page_of_a_pdf_is_read_by_ocr(tmp_path: Path) -> None:
    mixed = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples.pdf("Página com texto."))) as pdf:
        with pikepdf.open(io.BytesIO(scanned_pdf(TEXT))) as scan:
            pdf.pages.extend(scan.pages)
        pdf.add_blank_page()
        pdf.save(mixed)

    reading = await read(mixed.getvalue(), "pdf", tmp_path)

    assert [page.source for page in reading.pages] == ["text", "ocr", "text"]
    assert reading.pages[0].text == "Página com texto."
    assert character_errors(TEXT, reading.pages[1].text) < 0.02
    assert reading.reader == "pypdfium2+rapidocr"


@pytest.mark.usefixtures("without_tesseract")
async def test_columns_are_read_one_after_the_other_on_a_page_that_lies_on_its_side_and_askew(tmp_path: Path) -> None:
    page, expected = columns()
    askew = page.rotate(92, expand=True, fillcolor=255, resample=Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    askew.save(buffer, "PNG")

    reading = await read(buffer.getvalue(), "png", tmp_path)

    assert character_errors(expected, reading.text) < 0.03


def columns() -> tuple[Any, str]:
    """A page of two columns under a heading, and its text as a person reads it."""
    left = "A salina fica na margem da lagoa e ali o vento sopra do nordeste quase o ano inteiro sem descanso."
    right = "O homem que varre o sal conhece a cor da água e sabe pelo cheiro quando o tanque está maduro."
    heading = "Relatório das salinas do município"
    parts = [
        (56, 780, 20, [heading]),
        (56, 740, 11, samples.wrapped(left, 26)),
        (300, 740, 11, samples.wrapped(right, 26)),
    ]
    stream = b" ".join(samples.set_text(*part) for part in parts)
    pdf = pypdfium2.PdfDocument(samples.write_pdf([stream]))
    picture = pdf[0].render(scale=200 / 72, crop=(20, 640, 60, 0)).to_pil().convert("L")
    pdf.close()
    return picture, f"{heading} {left} {right}"


@pytest.mark.usefixtures("tesseract", "without_rapidocr")
async def test_tesseract_reads_where_rapidocr_cannot_be_loaded(tmp_path: Path) -> None:
    pages = [Image.open(io.BytesIO(picture(text))) for text in ("um", "dois")]
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:])

    reading = await read(buffer.getvalue(), "tiff", tmp_path)

    width, height = pages[0].size
    assert [page.text for page in reading.pages] == [f"lido por tesseract {width} {height}"] * 2
    assert reading.reader == "tesseract"


@pytest.mark.usefixtures("tesseract")
async def test_rapidocr_is_asked_first_and_tesseract_where_it_finds_nothing(tmp_path: Path) -> None:
    pages = [Image.open(io.BytesIO(picture("O aluguel vence"))), Image.new("L", (320, 200), 255)]
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:])

    reading = await read(buffer.getvalue(), "tiff", tmp_path)

    assert [page.text for page in reading.pages] == ["O aluguel vence", "lido por tesseract 320 200"]
    assert reading.reader == "rapidocr+tesseract"


def test_pages_that_rapidocr_would_not_read_in_time_are_read_by_tesseract(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [0.0]

    def slowly(_: object) -> str:
        clock[0] += 10
        return "por rapidocr"

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(engines, "rapidocr", lambda: None)
    monkeypatch.setattr(engines, "has_tesseract", lambda: True)
    monkeypatch.setattr(engines, "ask_rapidocr", slowly)
    monkeypatch.setattr(engines, "ask_tesseract", lambda *_: "por tesseract")
    monkeypatch.setattr("retoma.providers.local.trail.note", lambda _: None)
    blank = np.full((9, 9, 3), 255, dtype=np.uint8)
    both = ocr._Engines(tmp_path / "a.pdf", Trail(seconds=60))

    read_by = [page.text for page in both.read([(number, blank) for number in range(1, 11)], 10)]

    assert read_by[:2] == ["por rapidocr"] * 2
    assert read_by[-5:] == ["por tesseract"] * 5
    assert read_by == sorted(read_by), "it does not go back"


@pytest.mark.usefixtures("without_tesseract", "without_rapidocr")
async def test_where_nobody_can_read_pictures_that_is_said(tmp_path: Path) -> None:
    for content, kind in ((picture(TEXT), "png"), (scanned_pdf(TEXT), "pdf")):
        with pytest.raises(
            OcrUnavailable, match=r"^scan\.(png|pdf) is a picture of text, and rapidocr .*libGL"
        ) as missing:
            await read(content, kind, tmp_path)
        assert missing.value.code == "ocr_unavailable"


@pytest.mark.usefixtures("without_tesseract", "without_rapidocr")
async def test_a_book_is_not_lost_for_its_cover_and_the_cover_is_marked_as_unread(tmp_path: Path) -> None:
    book = io.BytesIO()
    with pikepdf.open(io.BytesIO(scanned_pdf("A CAPA"))) as pdf:
        with pikepdf.open(io.BytesIO(samples.pdf("Capítulo 1. Era uma vez."))) as inside:
            pdf.pages.extend(inside.pages)
        pdf.save(book)

    reading = await read(book.getvalue(), "pdf", tmp_path)

    assert [(page.source, page.text) for page in reading.pages] == [("scan", ""), ("text", "Capítulo 1. Era uma vez.")]
    assert reading.reader == "pypdfium2, without OCR"

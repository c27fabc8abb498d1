"""Pictures of text are read; and where nobody can read them, that is said and not passed over."""

import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pikepdf
import pytest

from retoma.bench.evaluation import samples
from retoma.bench.evaluation.accuracy import character_errors
from retoma.isolate import configure, shutdown
from retoma.providers.local import LocalExtractor
from retoma.providers.local.errors import OcrUnavailable

pypdfium2 = pytest.importorskip("pypdfium2")
pytest.importorskip("rapidocr")
Image = pytest.importorskip("PIL.Image")

pytestmark = pytest.mark.timeout(300)

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


@pytest.mark.usefixtures("tesseract")
async def test_tesseract_is_asked_first_where_it_knows_our_languages(tmp_path: Path) -> None:
    pages = [Image.open(io.BytesIO(picture(text))) for text in ("um", "dois")]
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:])

    reading = await read(buffer.getvalue(), "tiff", tmp_path)

    width, height = pages[0].size
    assert [page.text for page in reading.pages] == [f"lido por tesseract {width} {height}"] * 2
    assert reading.reader == "tesseract"


@pytest.mark.usefixtures("without_tesseract", "without_rapidocr")
async def test_where_nobody_can_read_pictures_that_is_said(tmp_path: Path) -> None:
    for content, kind in ((picture(TEXT), "png"), (scanned_pdf(TEXT), "pdf")):
        with pytest.raises(OcrUnavailable, match="libGL") as missing:
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

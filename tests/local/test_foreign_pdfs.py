"""PDFs as other programs make them say what pdftotext finds in them: at least 99 of 100 words."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import pikepdf
import pypdfium2
import pytest

from retoma.bench.evaluation import labelled, samples
from retoma.providers.local import markup
from retoma.providers.local.readers import pdf
from retoma.providers.local.trail import Trail

pytestmark = pytest.mark.timeout(300)

BOOK = labelled.book("pt").strip()
PARAGRAPHS = [" ".join(each.split()) for each in BOOK.split("\n\n") if each.strip()]
ITEMS = [(str(n), f"Cadeira giratória modelo {n}", str(2 * n), f"{450 * n},00") for n in range(1, 13)]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in this process: what is tested is the reader."""
    monkeypatch.setattr("retoma.providers.local.trail.note", lambda _: None)


def program(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"no {names[0]} (make test installs it for root)")
    return found


def run(*command: str | Path, given: bytes | None = None) -> bytes:
    return subprocess.run(command, input=given, capture_output=True, check=True, timeout=240).stdout


def words(text: str) -> str:
    """*text* in the letters that both programs use: ligatures apart, hyphens that only divide a word gone."""
    return unicodedata.normalize("NFKC", text).replace("\u00ad", "").casefold()


# — who makes them —


def page(*, columns: int = 1) -> bytes:
    cells = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in ITEMS)
    text = "".join(f"<p>{escape(each)}</p>" for each in PARAGRAPHS)
    return f"""<!doctype html><html lang="pt"><meta charset="utf-8"><style>
      body {{ font: 11pt serif; columns: {columns}; hyphens: auto; text-align: justify }}
      td {{ border: 1px solid }} h2 {{ break-before: page }} sup {{ font-size: 60% }}</style>
      <h1>O diário das salinas</h1>{text}<h2>Notas</h2><p>A água<sup>1</sup> sobe; a área é de 10 m<sup>2</sup>.</p>
      <table>{cells}</table><p><input value="Ana Conceição"><select><option>São Paulo</select></p>
      <p style="transform: rotate(90deg); width: 8em">De lado na margem</p></html>""".encode()


def by_chromium(folder: Path, *, columns: int = 1) -> Path:
    chromium = program("chromium", "chromium-browser", "chromium-headless-shell")
    (folder / "page.html").write_bytes(page(columns=columns))
    file = folder / "chromium.pdf"
    flags = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-pdf-header-footer",
        f"--user-data-dir={folder}/profile",
    )
    run(chromium, *flags, f"--print-to-pdf={file}", (folder / "page.html").as_uri())
    return file


def by_groff(folder: Path, *, begin: str, noted: bool = False) -> Path:
    groff, distil = program("groff"), program("ps2pdf", "gs")
    if subprocess.run([groff, "-ms", "-Tps"], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
        pytest.skip("a groff without its macros (make test installs them for root)")
    said = f".nr PS 10\n.TL\nO diário das salinas\n{begin}\n" + "".join(
        f".PP\n{_noted(each) if noted else each}\n" for each in PARAGRAPHS
    )
    (folder / "groff.ps").write_bytes(run(groff, "-k", "-ms", "-Tps", given=said.encode()))
    run(distil, folder / "groff.ps", folder / "groff.pdf")
    return folder / "groff.pdf"


def _noted(paragraph: str) -> str:
    """*paragraph* with a footnote to its first sentence."""
    first, end, rest = paragraph.partition(". ")
    return f"{first}.\\**\n.FS\nVer a obra citada, que conta o mesmo.\n.FE\n{rest}" if end else paragraph


def by_ghostscript(folder: Path) -> Path:
    distil = program("ps2pdf")
    (folder / "own.pdf").write_bytes(samples.pdf(BOOK))
    run(distil, folder / "own.pdf", folder / "distilled.pdf")
    return folder / "distilled.pdf"


def by_cairo(folder: Path) -> Path:
    draw = program("pdftocairo")
    run(draw, "-pdf", by_chromium(folder), folder / "cairo.pdf")
    return folder / "cairo.pdf"


def by_tesseract(folder: Path) -> Path:
    ocr = program("tesseract")
    document = pypdfium2.PdfDocument(samples.pdf("\n".join(PARAGRAPHS)[:1500]))
    document[0].render(scale=150 / 72).to_pil().save(folder / "scan.png")
    document.close()
    run(ocr, folder / "scan.png", folder / "scan", "pdf")
    return folder / "scan.pdf"


def by_libreoffice(folder: Path) -> Path:
    office = program("soffice")
    (folder / "page.html").write_bytes(page())
    run(office, f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--headless", "--convert-to",
        "pdf:writer_web_pdf_Export", "--outdir", folder, folder / "page.html")  # fmt: skip
    return folder / "page.pdf"


def packed(folder: Path) -> Path:
    with pikepdf.open(by_chromium(folder, columns=2)) as made:
        made.save(
            folder / "packed.pdf",
            linearize=True,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            encryption=pikepdf.Encryption(owner="dono", user=""),
        )
    return folder / "packed.pdf"


def shown(pdf: pikepdf.Pdf, lines: Sequence[str], *, at: int, **more: object) -> pikepdf.Object:
    """An annotation that shows *lines*."""
    look = pdf.make_stream(
        samples.set_text(2, 40, 9, lines),
        Type=pikepdf.Name.XObject,
        Subtype=pikepdf.Name.Form,
        BBox=[0, 0, 300, 60],
        Resources=pikepdf.Dictionary(Font=pikepdf.Dictionary(F1=pdf.pages[0].Resources.Font.F1)),
    )
    place = {"Type": pikepdf.Name.Annot, "Rect": [100, at, 400, at + 60], "F": 4, "AP": pikepdf.Dictionary(N=look)}
    return pdf.make_indirect(pikepdf.Dictionary(**place, **more))


def signed(folder: Path) -> Path:
    """What a signature, a stamp and a form show is no part of the page's own text."""
    with pikepdf.open(io.BytesIO(samples.pdf("Contrato de aluguel"))) as made:
        widget = {"Subtype": pikepdf.Name.Widget}
        signature = shown(
            made, ["Assinado digitalmente por", "MARIA DA CONCEIÇÃO:12345678909"], at=600,
            FT=pikepdf.Name.Sig, T="assinatura", **widget,
        )  # fmt: skip
        stamp = shown(made, ["Protocolo 2026/0042"], at=500, Subtype=pikepdf.Name.Stamp)
        name = shown(made, ["Ana Conceição"], at=400, FT=pikepdf.Name.Tx, T="nome", V="Ana Conceição", **widget)
        made.pages[0].Annots = pikepdf.Array([signature, stamp, name])
        made.Root.AcroForm = pikepdf.Dictionary(Fields=[signature, name])
        made.save(folder / "signed.pdf")
    return folder / "signed.pdf"


def highlighted(folder: Path) -> Path:
    """Boxes behind words and lines under them touch each other, and are no table."""
    lines = samples.wrapped(" ".join(PARAGRAPHS)[:1800], 80)
    marks = b" ".join(
        b"%d %d %d 14 re S" % (70 + 37 * column, 776 - 14 * row, 37) for row in range(6) for column in range(10)
    )
    (folder / "marked.pdf").write_bytes(samples.write_pdf([marks + b" " + samples.set_text(56, 780, 11, lines)]))
    return folder / "marked.pdf"


MAKERS: dict[str, Callable[[Path], Path]] = {
    "Chromium": by_chromium,
    "Chromium, two columns": lambda folder: by_chromium(folder, columns=2),
    "groff": lambda folder: by_groff(folder, begin=".AU\nRetoma"),
    "groff, with footnotes": lambda folder: by_groff(folder, begin=".AU\nRetoma", noted=True),
    "groff, two columns": lambda folder: by_groff(folder, begin=".2C"),
    "Ghostscript": by_ghostscript,
    "cairo": by_cairo,
    "Tesseract": by_tesseract,
    "LibreOffice": by_libreoffice,
    "packed and locked for changes": packed,
    "signed, stamped and filled in": signed,
    "highlighted": highlighted,
}


@pytest.mark.parametrize("maker", MAKERS)
def test_the_words_that_pdftotext_finds_are_found(maker: str, tmp_path: Path) -> None:
    tool = program("pdftotext")
    file = MAKERS[maker](tmp_path)
    told = run(tool, "-enc", "UTF-8", file, "-").decode()
    assert len(re.findall(r"\w+", told)) > 5, "there is something to compare with"

    reading = pdf.read(file, Trail())

    assert markup.words_kept(words(told), words(reading.text)) >= 0.99


def test_the_columns_of_a_printed_page_come_one_after_the_other(tmp_path: Path) -> None:
    reading = pdf.read(by_groff(tmp_path, begin=".2C"), Trail())

    flat = " ".join(reading.text.split())
    starts = [flat.find(each[:40]) for each in PARAGRAPHS if len(each) > 200]  # titles may repeat
    assert starts == sorted(starts)
    assert -1 not in starts


@pytest.mark.parametrize("begin", [".AU\nRetoma", ".2C"])
def test_the_footnotes_of_a_printed_page_cut_no_sentence(begin: str, tmp_path: Path) -> None:
    reading = pdf.read(by_groff(tmp_path, begin=begin, noted=True), Trail())

    flat = re.sub(r"\[\d+ Ver a obra citada, que conta o mesmo\.\] |-\d- ", "", f"{' '.join(reading.text.split())} ")
    parts = [_noted(each).split("\n")[-1] for each in PARAGRAPHS if ". " in each]
    assert len(reading.pages) > 1
    assert [part for part in parts if part not in flat] == []


def test_what_a_signature_shows_is_read(tmp_path: Path) -> None:
    reading = pdf.read(signed(tmp_path), Trail())

    assert "Assinado digitalmente por" in reading.text
    assert "MARIA DA CONCEIÇÃO:12345678909" in reading.text
    assert "nome: Ana Conceição" in reading.text
    assert not reading.tables


def test_a_page_whose_letters_mean_nothing_is_read_from_its_picture(tmp_path: Path) -> None:
    shifted = "".join(chr(ord(sign) + 3) if sign.isascii() and sign.isalpha() else sign for sign in BOOK[:3000])
    (tmp_path / "broken.pdf").write_bytes(samples.pdf(shifted))

    reading = pdf.read(tmp_path / "broken.pdf", Trail())

    assert [page.source for page in reading.pages] == ["scan"] * len(reading.pages)
    assert not reading.text.strip()


def test_a_document_without_text_is_read_from_its_picture_unless_its_pages_are_blank(tmp_path: Path) -> None:
    few_strokes = b"4 w 100 500 m 100 600 l S 100 550 m 150 550 l S 150 500 m 150 600 l S 200 500 m 200 600 l S"
    (tmp_path / "drawn.pdf").write_bytes(samples.write_pdf([b"", few_strokes]))
    (tmp_path / "blank.pdf").write_bytes(samples.write_pdf([b"", b" "]))

    drawn, blank = (pdf.read(tmp_path / name, Trail()) for name in ("drawn.pdf", "blank.pdf"))

    assert [page.source for page in drawn.pages] == ["text", "scan"]
    assert [page.source for page in blank.pages] == ["text", "text"]

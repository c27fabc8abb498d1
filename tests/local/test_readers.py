"""What a document says comes out whole, in its order, whatever program made it."""

import datetime as dt
import io
import os
import shutil
import subprocess
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import docx
import openpyxl
import pikepdf
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls

from retoma.bench.evaluation import labelled, samples
from retoma.bench.evaluation.accuracy import words_right
from retoma.errors import ConfigurationError
from retoma.isolate import configure, shutdown
from retoma.providers import Extraction, Extractor
from retoma.providers.local import LocalExtractor
from retoma.providers.local.archives import Archive
from retoma.providers.local.errors import DocumentEncrypted, MarkupRefused, TextTooLong, TypeMismatch
from retoma.providers.local.readers import xlsx
from retoma.providers.local.trail import Trail

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True, scope="module")
def two_children() -> Iterator[None]:
    configure(children=2)
    yield
    shutdown()
    configure(children=os.cpu_count() or 1)


async def read(content: bytes, kind: str, tmp_path: Path) -> Extraction:
    file = tmp_path / f"sample.{kind}"
    file.write_bytes(content)
    return await LocalExtractor().extract(file, kind=kind, timeout=60)


def test_it_is_an_extractor() -> None:
    assert isinstance(LocalExtractor(), Extractor)


@pytest.mark.parametrize("kind", samples.MAKERS)
async def test_every_word_of_every_kind_is_read(kind: str, tmp_path: Path) -> None:
    text = labelled.book("pt").strip()

    reading = await read(samples.MAKERS[kind](text), kind, tmp_path)

    assert words_right(text, reading.text) == 1
    assert reading.usage.units == len(reading.pages)
    assert all(page.source == "text" for page in reading.pages)


# — PDF —


async def test_a_pdf_has_pages_and_an_outline(tmp_path: Path) -> None:
    outline = [("Capítulo 1 – Água", 1), ("Capítulo 2 – Vento", 2)]

    reading = await read(samples.pdf("linha\n" * 120, outline=outline), "pdf", tmp_path)

    assert [page.number for page in reading.pages] == [1, 2, 3]
    assert list(reading.outline) == outline
    assert reading.reader == "pypdfium2"
    assert reading.text.count("\f") == 2


async def test_a_word_parted_at_the_end_of_a_line_is_whole_again(tmp_path: Path) -> None:
    reading = await read(samples.pdf("O sistema deve imple-\nmentar a retomada."), "pdf", tmp_path)

    assert "implementar a retomada" in reading.text


async def test_a_pdf_with_a_password_for_changes_only_is_read(tmp_path: Path) -> None:
    guarded = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples.pdf("aberto a todos"))) as pdf:
        pdf.save(guarded, encryption=pikepdf.Encryption(owner="dono", user=""))

    assert "aberto a todos" in (await read(guarded.getvalue(), "pdf", tmp_path)).text


async def test_a_pdf_with_a_password_says_so_and_what_to_do(tmp_path: Path) -> None:
    locked = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples.pdf("segredo"))) as pdf:
        pdf.save(locked, encryption=pikepdf.Encryption(owner="dono", user="senha"))

    with pytest.raises(DocumentEncrypted, match=r"sample\.pdf asks for a password\. Save it without"):
        await read(locked.getvalue(), "pdf", tmp_path)


async def test_a_pdf_that_pdfium_cannot_open_is_repaired_and_says_so(tmp_path: Path) -> None:
    reading = await read(samples.pdf("ainda se lê")[9:], "pdf", tmp_path)

    assert reading.text == "ainda se lê"
    assert reading.reader == "pikepdf+pypdfium2"


async def test_what_was_filled_into_a_form_is_read(tmp_path: Path) -> None:
    filled = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples.pdf("Requerimento"))) as pdf:
        place = {"Type": pikepdf.Name.Annot, "Subtype": pikepdf.Name.Widget, "Rect": [0, 0, 9, 9]}
        text, button = {**place, "FT": pikepdf.Name.Tx}, {**place, "FT": pikepdf.Name.Btn}
        name = pdf.make_indirect(pikepdf.Dictionary(**text, T="nome", V="Ana Conceição"))
        ticked = pdf.make_indirect(pikepdf.Dictionary(**button, T="urgente", V=pikepdf.Name.Sim))
        empty = pdf.make_indirect(pikepdf.Dictionary(**text, T="telefone"))
        person = pdf.make_indirect(pikepdf.Dictionary(T="pessoa", Kids=[name, empty]))
        pdf.pages[0].Annots = pikepdf.Array([name, ticked, empty])
        pdf.Root.AcroForm = pikepdf.Dictionary(Fields=[person, ticked])
        pdf.save(filled)

    reading = await read(filled.getvalue(), "pdf", tmp_path)

    assert [(field.name, field.value, field.page) for field in reading.fields] == [
        ("pessoa.nome", "Ana Conceição", 1),
        ("urgente", "Sim", 1),
    ]
    assert reading.text == "Requerimento\npessoa.nome: Ana Conceição\nurgente: Sim"


async def test_the_words_that_pdftotext_finds_are_found(tmp_path: Path) -> None:
    program = shutil.which("pdftotext")
    if program is None:
        pytest.skip("no pdftotext (tools/system-packages poppler-utils, as root)")
    content = samples.pdf(labelled.book("pt"))
    (tmp_path / "book.pdf").write_bytes(content)
    told = subprocess.run([program, tmp_path / "book.pdf", "-"], capture_output=True, text=True, check=True).stdout

    reading = await read(content, "pdf", tmp_path)

    assert words_right(told, reading.text) >= 0.99


async def test_notes_on_a_page_and_several_choices_of_a_list_are_read(tmp_path: Path) -> None:
    noted = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples.pdf("Parecer"))) as pdf:
        place = {"Type": pikepdf.Name.Annot, "Rect": [0, 0, 9, 9]}
        typed = pdf.make_indirect(pikepdf.Dictionary(**place, Subtype=pikepdf.Name.FreeText, Contents="De acordo. Ana"))
        link = pdf.make_indirect(pikepdf.Dictionary(**place, Subtype=pikepdf.Name.Link, Contents="endereço"))
        chosen = pdf.make_indirect(
            pikepdf.Dictionary(**place, Subtype=pikepdf.Name.Widget, FT=pikepdf.Name.Ch, T="cores", V=["azul", "verde"])
        )
        pdf.pages[0].Annots = pikepdf.Array([typed, link, chosen])
        pdf.Root.AcroForm = pikepdf.Dictionary(Fields=[chosen])
        pdf.save(noted)

    reading = await read(noted.getvalue(), "pdf", tmp_path)

    assert reading.text == "Parecer\ncores: azul, verde\nDe acordo. Ana"


async def test_nothing_that_a_database_cannot_keep_is_in_the_text(tmp_path: Path) -> None:
    reading = await read(b"a\tb\r\nc\x1bd", "txt", tmp_path)

    assert reading.text == "a\tb\ncd"


# — DOCX —


async def test_a_docx_is_read_in_order_with_headings_and_tables(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_heading("Contrato", level=0)
    made.add_heading("Capítulo 1 – Objeto", level=1)
    made.add_paragraph("Antes da tabela.")
    table = made.add_table(rows=2, cols=2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Mês", "Valor"
    table.cell(1, 0).text, table.cell(1, 1).text = "Maio", "R$ 10"
    made.add_paragraph("Depois da tabela.")
    made.add_heading("Capítulo 2 – Prazo", level=1)
    made.add_heading("Detalhe", level=2)
    buffer = io.BytesIO()
    made.save(buffer)

    reading = await read(buffer.getvalue(), "docx", tmp_path)

    lines = [line for line in reading.text.split("\n") if line]
    assert lines[1:6] == ["Capítulo 1 – Objeto", "Antes da tabela.", "Mês | Valor", "Maio | R$ 10", "Depois da tabela."]
    assert [title for title, _ in reading.outline] == ["Capítulo 1 – Objeto", "Capítulo 2 – Prazo"]
    assert reading.tables[0].rows == [["Mês", "Valor"], ["Maio", "R$ 10"]]


async def test_what_stands_in_a_content_control_of_a_docx_is_read_and_what_was_deleted_is_not(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("primeiro")
    control = f"<w:sdt {nsdecls('w')}><w:sdtContent><w:p><w:r><w:t>preenchido</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    deleted = f"<w:p {nsdecls('w')}><w:del><w:r><w:delText>apagado</w:delText></w:r></w:del></w:p>"
    for xml in (control, deleted):
        made.element.body.insert(1, parse_xml(xml))
    buffer = io.BytesIO()
    made.save(buffer)

    reading = await read(buffer.getvalue(), "docx", tmp_path)

    assert reading.text.split() == ["primeiro", "preenchido"]


# — tables, slides, pages —


async def test_each_sheet_is_a_page_and_a_table(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.title = "Despesas"
    book.active.append(["Data", "Valor", None])
    day = dt.datetime(2026, 1, 21)  # noqa: DTZ001  # a workbook has no zones
    book.active.append([day, 12.0, None])
    second = book.create_sheet("Vazia")
    second.sheet_state = "hidden"
    buffer = io.BytesIO()
    book.save(buffer)

    reading = await read(buffer.getvalue(), "xlsx", tmp_path)

    assert reading.pages[0].text == "Despesas\n\nData | Valor\n2026-01-21 | 12"
    assert reading.tables[0].rows == [["Data", "Valor"], ["2026-01-21", "12"]]
    assert len(reading.pages) == 2


def workbook(path: Path, *, sheets: int, rows: int) -> Path:
    book = openpyxl.Workbook(write_only=True)
    for number in range(sheets):
        sheet = book.create_sheet(f"Folha {number}")
        for row in range(rows):
            sheet.append([row, f"Fornecedor {row}", "São Paulo"])
    book.save(path)
    return path


def test_the_sheets_of_a_workbook_are_counted_together_and_while_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr("retoma.providers.local.trail.note", seen.append)
    monkeypatch.setattr("retoma.providers.local.limits.TABLE_CELLS", 100)
    file = workbook(tmp_path / "contas.xlsx", sheets=5, rows=20)

    with pytest.raises(TextTooLong, match=r"contas\.xlsx has more than 100 cells"):
        xlsx.read(file, Trail())

    assert seen[-1] == ["openpyxl", 2], "the third sheet was never opened"


def test_no_part_of_an_archive_is_whole_in_memory_while_it_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "grande.xlsx"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("xl/sharedStrings.xml", os.urandom(4_000_000).hex())
        made.writestr("xl/late.xml", b"x" * 65_530 + b"<!DOCTYPE x>")

    with Archive(file) as archive:
        tracemalloc.start()
        with pytest.raises(MarkupRefused, match=r"late\.xml"):
            archive.check_markup()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < 2_000_000


async def test_slides_come_in_the_order_of_the_show(tmp_path: Path) -> None:
    reading = await read(samples.pptx("um\n\ndois\n\ntrês"), "pptx", tmp_path)

    assert [page.text for page in reading.pages] == ["um", "dois", "três"]


async def test_a_page_is_read_without_its_menu_and_scripts(tmp_path: Path) -> None:
    page = """<!DOCTYPE html><html><head><title>x</title><style>p {}</style></head><body>
      <nav><a href="/">Início</a></nav>
      <h1>Título</h1><h2>Parte um</h2><p>Olá,
         <b>mundo</b>!</p><ul><li>um</li><li>dois</li></ul>
      <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
      <h2>Parte dois</h2><pre>linha 1
linha 2</pre><script>alert(1)</script></body></html>"""

    reading = await read(page.encode("cp1252"), "html", tmp_path)

    assert reading.text.split("\n") == [
        "Título", "", "Parte um", "", "Olá, mundo!", "", "um", "dois", "", "a | b", "1 | 2", "", "Parte dois", "",
        "linha 1", "linha 2",
    ]  # fmt: skip
    assert reading.outline == [("Parte um", 1), ("Parte dois", 1)]
    assert reading.tables[0].rows == [["a", "b"], ["1", "2"]]


async def test_a_page_is_decoded_as_it_says_itself(tmp_path: Path) -> None:
    page = '<html><head><meta charset="iso-8859-15"></head><p>preço: 5 €</p></html>'

    assert (await read(page.encode("iso-8859-15"), "html", tmp_path)).text == "preço: 5 €"


async def test_a_csv_keeps_its_text_and_gives_its_rows(tmp_path: Path) -> None:
    reading = await read('nome;obs\n"Ana";"a; b"\nRui;"c\nd"\n'.encode("utf-16"), "csv", tmp_path)

    assert reading.tables[0].rows == [["nome", "obs"], ["Ana", "a; b"], ["Rui", "c\nd"]]
    assert reading.text.startswith("nome;obs\n")


# — the extractor —


async def test_a_text_may_be_read_as_any_kind_of_text_and_nothing_else_as_another_kind(tmp_path: Path) -> None:
    assert (await read(b"a;b\n1;2\n", "txt", tmp_path)).text == "a;b\n1;2"
    with pytest.raises(TypeMismatch, match=r"said to be docx and is pdf"):
        await read(samples.pdf("x"), "docx", tmp_path)


async def test_a_reader_whose_library_is_missing_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("olá")
    extractor = LocalExtractor(readers={"txt": ["no_such_library:read"]})

    with pytest.raises(ConfigurationError, match=r"no_such_library is not installed.*retoma\[local\]"):
        await extractor.extract(file, kind="txt", timeout=30)

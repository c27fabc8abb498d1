"""Letters as offices send them, RTF, ODT, mail and notes at the foot of a page: read as a person reads them."""

import io
import os
import zipfile
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from retoma.bench.evaluation import samples
from retoma.isolate import configure, shutdown
from retoma.providers import Extraction
from retoma.providers.local import LocalExtractor, detect
from retoma.providers.local.errors import DocumentUnreadable
from retoma.providers.local.readers.rtf import text_of

pytestmark = pytest.mark.timeout(600)

TEXT = "Pelo presente instrumento, as partes ajustam o seguinte."


@pytest.fixture(autouse=True, scope="module")
def one_child() -> Iterator[None]:
    configure(children=1)
    yield
    shutdown()
    configure(children=os.cpu_count() or 1)


async def read(content: bytes, kind: str, tmp_path: Path) -> Extraction:
    file = tmp_path / f"sample.{kind}"
    file.write_bytes(content)
    return await LocalExtractor().extract(file, kind=kind, timeout=60)


def kind_of(content: bytes, tmp_path: Path) -> str:
    file = tmp_path / "thing"
    file.write_bytes(content)
    return detect(file)


# — the kind —


def test_an_office_document_is_told_by_its_own_directory_and_not_by_what_is_inside_it(tmp_path: Path) -> None:
    inner, outer = samples.xlsx("42"), io.BytesIO(samples.pptx(TEXT))
    with zipfile.ZipFile(outer, "a") as archive:  # not packed, so the workbook's own directory can be seen
        archive.writestr("ppt/embeddings/Microsoft_Excel_Sheet1.xlsx", inner, zipfile.ZIP_STORED)

    assert kind_of(outer.getvalue(), tmp_path) == "pptx"


@pytest.mark.parametrize("kind", ["spreadsheet", "presentation"])
def test_an_opendocument_that_is_no_text_says_what_it_is(kind: str, tmp_path: Path) -> None:
    archive = samples.odt(TEXT).replace(b"opendocument.text", f"opendocument.{kind}".encode()[:17])

    with pytest.raises(DocumentUnreadable, match=f"OpenDocument of the kind {kind[:4]}") as refused:
        kind_of(archive, tmp_path)

    assert refused.value.code == "type_unknown"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("From: Ana\nTo: Rui\nSubject: Obra\n\nBom dia.", "txt"),
        ("De: Ana\nPara: Rui\nAssunto: Obra\n\nBom dia.", "txt"),
        ("Message-ID: <1@x>\nFrom: a@x\n\nBom dia.", "eml"),
        ("Received: by x;\n\tTue, 3 Mar 2026\nFrom: a@x\nSubject: s\n\nBom dia.", "eml"),
        ("Nota\nFrom: a@x\nMessage-ID: <1@x>\n", "txt"),
    ],
)
def test_a_mail_is_told_by_the_headers_that_programs_write(text: str, kind: str, tmp_path: Path) -> None:
    assert kind_of(text.encode(), tmp_path) == kind


# — RTF —


def test_the_text_of_an_rtf_is_read_and_nothing_of_its_machinery() -> None:
    document = (
        rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fswiss Arial;}}{\colortbl;\red0\green0\blue0;}"
        rb"{\stylesheet{\s0 Normal;}}{\info{\title Segredo}{\author Ana}}{\header cabe\'e7alho}"
        rb"\pard\b Peti\'e7\'e3o\b0\par Valor: R$\~10\endash 20\par"
        rb"{\*\generator Msftedit;}{\field{\*\fldinst HYPERLINK x}{\fldrslt veja aqui}}\par "
        rb"{\pict\pngblip 89504e47}fim\}}"
    )

    assert text_of(document, "a.rtf") == "Petição\nValor: R$\u00a010–20\nveja aqui\nfim}"


def test_a_unicode_character_of_an_rtf_is_said_once() -> None:
    assert text_of(rb"{\rtf1\uc1 a\u231?\u227?o {\uc0\u8364} \u-10179?\u-8704?}", "a.rtf") == "ação € 😀"


def test_the_bytes_of_a_picture_in_an_rtf_are_skipped_by_their_number() -> None:
    assert text_of(b"{\\rtf1 antes{\\pict\\bin4 }}{{}depois}", "a.rtf") == "antesdepois"


def test_a_table_of_an_rtf_has_a_line_for_each_row() -> None:
    rows = rb"{\rtf1 \trowd Nome\cell Valor\cell\row \trowd \'c1gua\cell 3\cell\row}"

    assert text_of(rows, "a.rtf") == "Nome | Valor\nÁgua | 3\n"


@pytest.mark.parametrize("content", [rb"{\rtf1 " + b"{" * 300_000, rb"{\rtf1 " + b"}" * 300_000])
async def test_groups_without_end_cost_no_recursion(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "deep.rtf"
    file.write_bytes(content)

    with pytest.raises(DocumentUnreadable) as refused:
        await LocalExtractor().extract(file, kind=detect(file), timeout=60)

    assert refused.value.code == "document_empty"


# — mail —


def a_mail() -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"] = "Ana Conceição <ana@example.org>", "rui@example.org"
    mail["Subject"], mail["Message-ID"] = "Licitação nº 3", "<1@example.org>"
    return mail


async def test_a_mail_tells_who_wrote_and_its_text_and_names_what_is_attached(tmp_path: Path) -> None:
    mail = a_mail()
    mail.set_content("Segue a proposta.\nAtenciosamente.")
    mail.add_alternative("<p>Segue <b>a proposta</b>.</p>", subtype="html")
    mail.add_attachment(b"%PDF-1.7", maintype="application", subtype="pdf", filename="proposta ação.pdf")

    reading = await read(mail.as_bytes(), "eml", tmp_path)

    assert reading.text.split("\n") == [
        "From: Ana Conceição <ana@example.org>",
        "To: rui@example.org",
        "Subject: Licitação nº 3",
        "",
        "Segue a proposta.",
        "Atenciosamente.",
        "",
        "[proposta ação.pdf]",
    ]
    assert "JVBER" not in reading.text  # the attachment as it is sent


async def test_a_mail_of_html_alone_is_read_as_a_page_with_its_tables(tmp_path: Path) -> None:
    mail = a_mail()
    mail.set_content("<p>Itens:</p><table><tr><td>Mesa</td><td>2</td></tr></table>", subtype="html")

    reading = await read(mail.as_bytes(), "eml", tmp_path)

    assert "Itens:" in reading.text
    assert reading.tables[0].rows == [["Mesa", "2"]]


async def test_a_mail_in_an_unknown_code_page_is_still_read(tmp_path: Path) -> None:
    content = b"From: a@x\nMessage-ID: <1@x>\nContent-Type: text/plain; charset=x-none\n\n" + "Ação".encode("cp1252")

    assert "Ação" in (await read(content, "eml", tmp_path)).text


# — ODT —


async def test_an_odt_is_read_in_order_with_headings_tables_and_notes(tmp_path: Path) -> None:
    spaces = 'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" ' + " ".join(
        f'xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in ("text", "table")
    )
    body = (
        "<text:tracked-changes><text:p>apagado</text:p></text:tracked-changes>"
        '<text:h text:outline-level="1">Capítulo 1</text:h>'
        "<text:p>Antes<text:s text:c='2'/>da<text:tab/>tabela<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>ver a lei</text:p></text:note-body></text:note>.</text:p>"
        "<table:table><table:table-row><table:table-cell><text:p>Maio</text:p></table:table-cell>"
        "<table:table-cell><text:p>R$ 10</text:p></table:table-cell></table:table-row></table:table>"
        "<text:list><text:list-item><text:p>um item</text:p></text:list-item></text:list>"
    )
    content = (
        f"<office:document-content {spaces}><office:body><office:text>{body}</office:text></office:body>"
        "</office:document-content>"
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        archive.writestr("content.xml", content)

    reading = await read(made.getvalue(), "odt", tmp_path)

    assert [line for line in reading.text.split("\n") if line] == [
        "Capítulo 1",
        "Antes  da\ttabela [ver a lei].",
        "Maio | R$ 10",
        "um item",
    ]
    assert [title for title, _ in reading.outline] == ["Capítulo 1"]
    assert reading.tables[0].rows == [["Maio", "R$ 10"]]


# — DOCX —


async def test_a_footnote_of_a_docx_is_read_where_it_is_referred_to(tmp_path: Path) -> None:
    w = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    made = samples.zipped(
        {
            "word/document.xml": f'<w:document xmlns:w="{w}"><w:body><w:p><w:r><w:t>O prazo</w:t></w:r><w:r>'
            '<w:footnoteReference w:id="2"/></w:r><w:r><w:t> corre.</w:t></w:r></w:p></w:body></w:document>',
            "word/footnotes.xml": f'<w:footnotes xmlns:w="{w}"><w:footnote w:type="separator" w:id="0"><w:p/>'
            '</w:footnote><w:footnote w:id="2"><w:p><w:r><w:t>Art. 5º</w:t></w:r></w:p></w:footnote></w:footnotes>',
        }
    )

    assert (await read(made, "docx", tmp_path)).text == "O prazo [Art. 5º] corre."

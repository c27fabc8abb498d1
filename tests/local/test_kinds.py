"""A file is what is in it, whatever it is called."""

from pathlib import Path

import pytest

from retoma.bench.evaluation import samples
from retoma.providers.local import DocumentUnreadable, detect
from retoma.providers.local.kinds import decode, delimiter

TEXT = "Pelo presente instrumento, as partes ajustam o seguinte.\nCláusula primeira: do objeto."
TABLE = "nome;valor\nAção;10,5\nÓleo;3\n"

CONTENTS = {
    **{kind: make(TEXT) for kind, make in samples.MAKERS.items()},
    "csv": TABLE.encode(),
    "png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01",
    "jpg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "tiff": b"II*\0\x08\0\0\0",
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_kind_is_known_by_its_content_under_a_wrong_name(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "invoice.exe"
    file.write_bytes(CONTENTS[kind])

    assert detect(file) == kind


def test_a_pdf_may_begin_with_something_else(tmp_path: Path) -> None:
    file = tmp_path / "late.pdf"
    file.write_bytes(b"HTTP/1.1 200 OK\r\n\r\n" + samples.pdf(TEXT))

    assert detect(file) == "pdf"


@pytest.mark.parametrize(
    ("content", "code", "word"),
    [
        (b"", "document_empty", "0 bytes"),
        (samples.zipped({"readme.txt": "x"}), "type_unknown", "archive"),
        (b"\x7fELF\x02\0", "type_unknown", "program"),
        (b"\0\x01\x02\x03", "type_unknown", "00 01 02 03"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_it_is(content: bytes, code: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "thing.pdf"
    file.write_bytes(content)

    with pytest.raises(DocumentUnreadable, match=word) as refused:
        detect(file)

    assert refused.value.code == code
    assert not refused.value.retryable


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DocumentUnreadable, match=r"no file nowhere\.pdf") as missing:
        detect(tmp_path / "nowhere.pdf")

    assert missing.value.code == "document_missing"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_text_is_decoded_by_its_mark_or_as_utf_8_or_as_windows_1252(encoding: str) -> None:
    assert decode("Ação de coração – “sim”".encode(encoding)) == "Ação de coração – “sim”"


def test_half_a_character_at_the_end_of_a_sample_is_no_fault() -> None:
    assert decode("ação"[:3].encode()[:-1], cut=True) == "aç"
    assert decode(b"\xff\xfeo", cut=True) == ""


def test_bytes_that_are_no_text_are_not_made_into_one() -> None:
    assert decode(b"abc\0def") is None
    assert decode(bytes(range(128, 256))) is None  # some of these Windows-1252 does not have


@pytest.mark.parametrize(
    ("text", "sign"),
    [
        (TABLE, ";"),
        ("a\tb\n1\t2\n", "\t"),
        ('nome,valor\n"Silva, João",3\nAna,4\n', ","),
        ("Ontem, à tarde, choveu.\nHoje não.\nAmanhã, talvez.", None),
        ("uma linha; só", None),
    ],
)
def test_a_table_has_the_same_columns_in_every_line(text: str, sign: str | None) -> None:
    assert delimiter(text) == sign

"""Files that no reader should trust, made anew for each run: nothing of them is kept in the repository.

Each has the codes it may end with; "read" means that all its words were read.
"""

import io
import random
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import pikepdf

from retoma.bench.evaluation import labelled, samples

TEXT = labelled.book("pt").strip()


def only(code: str) -> frozenset[str]:
    return frozenset({code})


DAMAGED = only("document_damaged")
HARMED = DAMAGED | {"read", "type_unknown", "document_empty"}
PNG = b"\x89PNG\r\n\x1a\n"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@dataclass(frozen=True)
class Bad:
    name: str
    kind: str
    """What it is said to be."""

    make: Callable[[], bytes]
    ends: frozenset[str]
    seconds: float = 60


# — PDF —


def whole_pdf() -> bytes:
    return samples.pdf(TEXT)


def packed_pdf() -> bytes:
    packed = io.BytesIO()
    with pikepdf.open(io.BytesIO(whole_pdf())) as pdf:
        pdf.save(packed, object_stream_mode=pikepdf.ObjectStreamMode.generate, static_id=True)
    return packed.getvalue()


def cut(whole: bytes, share: float) -> bytes:
    return whole[: int(len(whole) * share)]


def flipped(whole: bytes, seed: int, times: int = 20) -> bytes:
    chance, broken = random.Random(seed), bytearray(whole)
    for _ in range(times):
        broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
    return bytes(broken)


def noise(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)


def locked_pdf() -> bytes:
    locked = io.BytesIO()
    with pikepdf.open(io.BytesIO(whole_pdf())) as pdf:
        pdf.save(locked, encryption=pikepdf.Encryption(owner="owner", user="user"))
    return locked.getvalue()


def hundred_thousand_pages() -> bytes:
    """One page, which the tree lists a hundred thousand times."""
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 100000/Kids[%b]>>" % (b"3 0 R " * 100_000),
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]>>",
    ]
    return samples.assemble_pdf(bodies)


def laughing_pdf() -> bytes:
    """Ten forms, each of which draws the next one ten times: ten thousand million drawings in two kilobytes."""
    forms = []
    for number in range(4, 14):
        stream = b" ".join([b"/X Do"] * 10) if number < 13 else b"BT /F1 9 Tf (ha) Tj ET"
        resources = b"<</XObject<</X %d 0 R>>/Font<</F1 3 0 R>>>>" % (number + 1)
        head = b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources%b/Length %d>>" % (resources, len(stream))
        forms.append(head + b"stream\n" + stream + b"\nendstream")
    return samples.write_pdf([b"/X Do"], objects=forms, page=b"/XObject<</X 4 0 R>>")


def bomb_pdf() -> bytes:
    """A page whose content unpacks to a gigabyte."""
    block, times = b"BT (x) Tj ET\n" * 80_000, 1_000
    packer, checksum = zlib.compressobj(9), 1
    first, again = (packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    for _ in range(times):
        checksum = zlib.adler32(block, checksum)
    stream = first + again * (times - 1) + packer.flush()[:-4] + struct.pack(">I", checksum)
    content = b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(stream), stream)
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R>>",
        content,
    ]
    return samples.assemble_pdf(bodies)


def circular_pdf() -> bytes:
    bodies = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 3/Kids[2 0 R 2 0 R 2 0 R]/Parent 2 0 R>>"]
    return samples.assemble_pdf(bodies)


def pageless_pdf() -> bytes:
    return samples.assemble_pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count -1/Kids[]>>"])


def nested_pdf() -> bytes:
    return samples.assemble_pdf([b"<</Type/Catalog/Pages 2 0 R/X " + b"[" * 500_000 + b"]" * 500_000 + b">>"])


def misplaced_pdf() -> bytes:
    whole = whole_pdf()
    return whole[: whole.rindex(b"startxref")] + b"startxref\n99999999\n%%EOF\n"


# — archives —


def document(body: str, before: str = "") -> str:
    return f'{before}<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def docx_of(xml: str | bytes) -> bytes:
    return samples.zipped({"word/document.xml": xml})


LAUGHS = "<!DOCTYPE x [<!ENTITY a0 'ha'>" + "".join(
    f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 10)
) + "]>"  # fmt: skip


def laughing_docx(encoding: str = "utf-8") -> bytes:
    declared = f'<?xml version="1.0" encoding="{encoding}"?>'
    return docx_of((declared + document(paragraph("&a9;"), LAUGHS)).encode(encoding))


def spying_docx() -> bytes:
    return docx_of(document(paragraph("&x;"), '<!DOCTYPE x [<!ENTITY x SYSTEM "/etc/hostname">]>'))


def bomb_docx() -> bytes:
    """Four hundred times its own size."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w") as member,
    ):
        member.write(document("")[: -len("</w:body></w:document>")].encode())
        for _ in range(200):
            member.write(paragraph("x").encode() * 25_000)
    return buffer.getvalue()


def crowded_docx() -> bytes:
    return samples.zipped({"word/document.xml": document(paragraph("x")), **{f"x/{n}": b"" for n in range(10_001)}})


def hidden_list_docx(files: int = 200_000) -> bytes:
    """A long list of files, of which only the ZIP64 record says how long it is; the last record says 1,000 bytes."""
    whole = samples.zipped({"word/document.xml": document(paragraph("x"))})
    start = whole.index(b"PK\x01\x02")
    name = b"word/document.xml"
    entry = whole[start : start + 46 + len(name)]
    listed = entry * files
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, files, files, len(listed), start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + len(listed), 1)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 19, 19, 1000, start, 0)
    return whole[:start] + listed + record + locator + last


def zip64_docx() -> bytes:
    """A whole document whose list of files is described by a ZIP64 record; the last record says nothing of it."""
    whole = docx_of(document(paragraph("x")))
    start, end = whole.index(b"PK\x01\x02"), whole.rindex(b"PK\x05\x06")
    files, listed = struct.unpack_from("<HL", whole, end + 10)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, files, files, listed, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1)
    last = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return whole[:end] + record + locator + last


def many_members_zip(files: int = 40, size: int = 9_900_000) -> bytes:
    """Texts that repeat themselves, each too small to be refused by itself, in a thousandth of their size."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(files):
            archive.writestr(f"{number}.txt", b"%d " % number * (size // (len(str(number)) + 1)))
    return buffer.getvalue()


def escaping_docx() -> bytes:
    return samples.zipped({"word/document.xml": document(paragraph("x")), "../../escaped.txt": b"x"})


def linking_docx() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("word/document.xml", document(paragraph("x")))
        link = zipfile.ZipInfo("word/styles.xml")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "../../../etc/hostname")
    return buffer.getvalue()


def locked_docx() -> bytes:
    """Every member says that it is encrypted."""
    whole = bytearray(docx_of(document(paragraph("x"))))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        whole[whole.index(signature) + flags] |= 1
    return bytes(whole)


def deep_docx() -> bytes:
    return docx_of(document("<w:p>" * 100_000 + "</w:p>" * 100_000))


def lying_xlsx() -> bytes:
    """A sheet of three cells that says it has seventeen thousand million."""
    buffer = io.BytesIO(samples.xlsx(TEXT))
    members = {name: zipfile.ZipFile(buffer).read(name) for name in zipfile.ZipFile(buffer).namelist()}
    sheet = members["xl/worksheets/sheet1.xml"].decode()
    start, end = sheet.index('<dimension ref="') + 16, sheet.index('"', sheet.index('<dimension ref="') + 16)
    members["xl/worksheets/sheet1.xml"] = (sheet[:start] + "A1:XFD1048576" + sheet[end:]).encode()
    return samples.zipped(members)


def laughing_xlsx() -> bytes:
    buffer = io.BytesIO(samples.xlsx("x"))
    members = {name: zipfile.ZipFile(buffer).read(name) for name in zipfile.ZipFile(buffer).namelist()}
    members["xl/sharedStrings.xml"] = LAUGHS.encode() + b"<sst><si><t>&a9;</t></si></sst>"
    return samples.zipped(members)


def slideless_pptx() -> bytes:
    buffer = io.BytesIO(samples.pptx(TEXT))
    members = {name: zipfile.ZipFile(buffer).read(name) for name in zipfile.ZipFile(buffer).namelist()}
    del members["ppt/slides/slide1.xml"]
    return samples.zipped(members)


def ole(stream: str) -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + stream.encode("utf-16-le") + bytes(512)


# — pictures —


def png(width: int, height: int, pixels: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return PNG + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def white_png(width: int = 300, height: int = 200) -> bytes:
    return png(width, height, (b"\0" + b"\xff" * width) * height)


def circular_tiff() -> bytes:
    """A directory of pages whose next page is the first one again."""
    entries = [
        (256, 3, 1, 8),
        (257, 3, 1, 8),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 100),
        (279, 4, 1, 64),
    ]
    directory = struct.pack("<H", len(entries)) + b"".join(
        struct.pack("<HHI", tag, kind, count)
        + (struct.pack("<HH", value, 0) if kind == 3 else struct.pack("<I", value))
        for tag, kind, count, value in entries
    )
    whole = b"II*\0" + struct.pack("<I", 8) + directory + struct.pack("<I", 8)
    return whole.ljust(100, b"\0") + b"\xff" * 64


# — text —


def deep_html() -> bytes:
    return b"<html><body>" + b"<div>" * 200_000 + b"fundo" + b"</div>" * 200_000 + b"</body></html>"


def ends_badly() -> bytes:
    return TEXT.encode() * 20 + b"\0\1\2\3" * 64


CORPUS = [
    *[
        Bad(f"pdf cut at {share:.0%}", "pdf", lambda share=share: cut(whole_pdf(), share), DAMAGED)
        for share in (0.2, 0.4, 0.6, 0.8, 0.95)
    ],
    *[Bad(f"pdf flipped {seed}", "pdf", lambda seed=seed: flipped(whole_pdf(), seed), HARMED) for seed in range(6)],
    *[
        Bad(f"packed pdf flipped {seed}", "pdf", lambda seed=seed: flipped(packed_pdf(), seed, times=3), HARMED)
        for seed in range(6)
    ],
    Bad("pdf without its first line", "pdf", lambda: whole_pdf()[9:], only("read")),
    Bad("pdf beheaded", "pdf", lambda: whole_pdf()[300:], DAMAGED),
    Bad("pdf without its index", "pdf", lambda: whole_pdf()[: whole_pdf().index(b"xref\n0 ")], only("read")),
    Bad("pdf with its index misplaced", "pdf", misplaced_pdf, only("read")),
    Bad("noise", "pdf", lambda: noise(4_096, 1), only("type_unknown")),
    Bad("noise that begins as a pdf", "pdf", lambda: b"%PDF-1.7\n" + noise(4_096, 2), DAMAGED),
    Bad("nothing", "pdf", lambda: b"", only("document_empty")),
    Bad("pdf with the head of a picture", "png", lambda: PNG + whole_pdf()[9:], only("type_mismatch")),
    Bad("picture with the head of a pdf", "pdf", lambda: b"%PDF-1.7" + white_png()[8:], DAMAGED),
    Bad("pdf said to be a docx", "docx", whole_pdf, only("type_mismatch")),
    Bad("pdf with a password", "pdf", locked_pdf, only("document_encrypted")),
    Bad("pdf of 100,000 pages", "pdf", hundred_thousand_pages, only("too_many_pages")),
    Bad("pdf that laughs for ever", "pdf", laughing_pdf, only("parser_timeout"), seconds=3),
    Bad(
        "pdf that unpacks to a gigabyte",
        "pdf",
        bomb_pdf,
        frozenset({"parser_memory", "parser_timeout", "parser_crashed", "document_damaged", "document_empty"}),
        seconds=20,
    ),
    Bad("pdf whose pages are each other", "pdf", circular_pdf, DAMAGED | {"document_empty"}),
    Bad("pdf without pages", "pdf", pageless_pdf, DAMAGED | {"document_empty"}),
    Bad("pdf of brackets", "pdf", nested_pdf, DAMAGED | {"parser_crashed", "document_empty"}),
    Bad("docx cut", "docx", lambda: cut(samples.docx(TEXT), 0.7), DAMAGED),
    Bad("docx flipped", "docx", lambda: flipped(samples.docx(TEXT), 3, times=5), DAMAGED | {"type_unknown"}),
    Bad("docx that laughs", "docx", laughing_docx, only("markup_refused")),
    Bad("docx that laughs in utf-16", "docx", lambda: laughing_docx("utf-16"), only("markup_refused")),
    Bad("docx that wants to see a file", "docx", spying_docx, only("markup_refused")),
    Bad("docx that unpacks to 200 megabytes", "docx", bomb_docx, only("archive_limits")),
    Bad("docx of 10,000 files", "docx", crowded_docx, only("archive_limits")),
    Bad("docx that hides how many files it lists", "docx", hidden_list_docx, only("archive_limits")),
    Bad("docx that reaches out of itself", "docx", escaping_docx, only("archive_limits")),
    Bad("docx with a symbolic link", "docx", linking_docx, only("archive_limits")),
    Bad("docx with a password of its own", "docx", locked_docx, only("document_encrypted")),
    Bad("docx without end", "docx", deep_docx, DAMAGED | {"parser_crashed", "archive_limits"}),
    Bad("docx without a body", "docx", lambda: docx_of("<a/>"), DAMAGED),
    Bad("docx of an empty paragraph", "docx", lambda: docx_of(document(paragraph(" "))), only("document_empty")),
    Bad("office document with a password", "docx", lambda: ole("EncryptedPackage"), only("document_encrypted")),
    Bad("word document of before 2007", "docx", lambda: ole("WordDocument"), only("type_unknown")),
    Bad("xlsx cut", "xlsx", lambda: cut(samples.xlsx(TEXT), 0.5), DAMAGED | {"type_unknown"}),
    Bad("xlsx that laughs", "xlsx", laughing_xlsx, only("markup_refused")),
    Bad("xlsx that lies about its size", "xlsx", lying_xlsx, only("read")),
    Bad("pptx that lost a slide", "pptx", slideless_pptx, DAMAGED),
    Bad("picture of 3,600 million pixels", "png", lambda: png(60_000, 60_000), only("image_too_large")),
    Bad("picture cut", "png", lambda: cut(white_png(2_000, 2_000), 0.6), DAMAGED),
    Bad("picture that ends early", "png", lambda: png(500, 500, b"\0" * 100), DAMAGED),
    Bad("noise that begins as a jpg", "jpg", lambda: b"\xff\xd8\xff\xe0" + noise(4_096, 3), DAMAGED),
    Bad("tiff that turns in a circle", "tiff", circular_tiff, DAMAGED | {"document_empty", "too_many_pages"}),
    Bad("picture of nothing", "png", white_png, only("document_empty")),
    Bad("html 200,000 deep", "html", deep_html, DAMAGED),
    Bad("html of scripts", "html", lambda: b"<html><script>x()</script><nav>a</nav></html>", only("document_empty")),
    Bad("text that ends badly", "txt", ends_badly, DAMAGED),
    Bad("utf-16 cut in half", "txt", lambda: "olá".encode("utf-16")[:-1], only("type_unknown")),
]  # fmt: skip

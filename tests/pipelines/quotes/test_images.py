"""Photographs of items: looked at without being decoded, kept with their hash, shown to a model once."""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from market import Bill, a_market
from pictures import chunk, drawn, png

from retoma import Retoma, Settings
from retoma.errors import Conflict
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes import images
from retoma.pipelines.quotes.folders import listed_in
from retoma.pipelines.quotes.images import ImageRefused, Seen, look_at
from retoma.pipelines.quotes.keeping import of_numbered
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import ListRefused, read_list
from retoma.pipelines.quotes.ports import Market
from retoma.pipelines.quotes.reports import Reports
from retoma.providers import Answer, BlobStore, Chat, Prompt, Usage
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.folder import FolderBlobs
from retoma.providers.openai import OpenAIChat
from retoma.testing import drain
from retoma.testing.wire import Served

VISION = Path(__file__).parents[2] / "servers" / "vision.py"
LOOSE = "select blob from retoma.loose_blobs"
CALLS = "select provider, request from retoma.calls where step = 'AI_ANALYSIS'"

Open = Callable[..., Retoma]


@pytest.fixture
def blobs(tmp_path: Path) -> FolderBlobs:
    return FolderBlobs(tmp_path / "blobs")


@pytest.fixture
def opened(settings: Settings, bill: Bill, blobs: FolderBlobs) -> Open:
    def made(chat: Chat | None = None) -> Retoma:
        providers: dict[type, object] = {Market: a_market(bill), BlobStore: blobs}
        if chat is not None:
            providers[Chat] = chat
        return Retoma(settings=settings, extensions=[QUOTES], providers=providers)

    return made


class Blind:
    """A model of words alone."""

    provider = "anthropic"
    model = "claude"

    def __init__(self) -> None:
        self.asked: list[Prompt] = []

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002 - as the protocol has it
        self.asked.append(prompt)
        text = json.dumps({"tipo_processamento": "GOOGLE_SHOPPING", "nome_canonico": "Mesa", "query_principal": "mesa"})
        return Answer(raw=text, text=text, model=self.model, usage=Usage(input_tokens=10, output_tokens=5))


class Seeing(Blind):
    takes_pictures = True


# — what an image is —


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("PNG", {}, images.PNG),
        ("JPEG", {}, images.JPEG),
        ("JPEG", {"progressive": True, "exif": b"Exif\0\0" + b"\0" * 500}, images.JPEG),
        ("WEBP", {}, images.WEBP),
        ("WEBP", {"lossless": True}, images.WEBP),
        ("WEBP", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}, images.WEBP),
    ],
)
def test_the_kind_and_size_of_an_image_are_told_by_its_content(kind: str, options: dict[str, Any], told: str) -> None:
    assert look_at(drawn(kind, (123, 45), **options)) == Seen(told, 123, 45)


def test_an_image_that_claims_50_000_by_50_000_pixels_is_refused_and_costs_no_memory() -> None:
    bomb = png(50_000, 50_000)
    tracemalloc.start()

    with pytest.raises(ImageRefused) as refused:
        look_at(bomb)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.value.code == "image_too_many_pixels"
    assert "50,000 × 50,000" in refused.value.message
    assert peak < 1_000_000
    assert len(bomb) < 1_000


def test_no_image_is_ever_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setattr(images.zlib, "decompress", pytest.fail)
    monkeypatch.setattr(images.zlib, "decompressobj", pytest.fail)

    assert look_at(png()) == Seen(images.PNG, 3, 2)


REFUSED = {
    "nothing": (b"", "image_empty"),
    "text": (b"descricao;codigo\nMesa;1\n", "image_unsupported"),
    "gif": (b"GIF89a" + b"\0" * 100, "image_unsupported"),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image_unsupported"),
    "a program behind the first bytes of a PNG": (b"\x89PNG\r\n\x1a\n" + b"MZ" * 50, "image_damaged"),
    "a header whose checksum is wrong": (png()[:29] + b"\0\0\0\0" + png()[33:], "image_damaged"),
    "no pixels": (png(0, 5), "image_damaged"),
    "too wide": (png(images.MOST_SIDE + 1, 1), "image_too_many_pixels"),
    "too many in all": (png(7_999, 7_999), "image_too_many_pixels"),
    "too many bytes": (png() + b"\0" * images.MOST_BYTES, "image_too_large"),
    "a part that leads past the end": (png()[:-12] + b"\xff\xff\xff\xffIDAT" + b"\0" * 30, "image_damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_image_that_can_be_taken_is_refused_with_a_code(name: str) -> None:
    content, code = REFUSED[name]

    with pytest.raises(ImageRefused) as refused:
        look_at(content)

    assert refused.value.code == code
    assert refused.value.next


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_that_was_cut_off_anywhere_is_refused(kind: str) -> None:
    whole = drawn(kind)

    for length in range(1, len(whole) - 1):
        with pytest.raises(ImageRefused):
            look_at(whole[:length])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_whatever_bytes_are_changed_the_answer_is_a_size_or_a_refusal(kind: str) -> None:
    chance = random.Random(7)
    whole = drawn(kind, (40, 30))

    for _ in range(3_000):
        changed = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            seen = look_at(bytes(changed))
        except ImageRefused:
            continue
        assert seen.width * seen.height <= images.MOST_PIXELS


def test_a_png_with_parts_without_end_is_looked_at_once() -> None:
    parts = chunk(b"tEXt", b"") * 300_000

    with pytest.raises(ImageRefused) as refused:
        look_at(png()[:33] + parts)

    assert refused.value.code == "image_damaged"


# — without a model that sees —


@pytest.mark.parametrize("chat", [None, Blind()], ids=["no model", "a model of words"])
async def test_an_image_alone_is_refused_before_anything_is_asked_where_no_model_sees(
    opened: Open, bill: Bill, psql: psycopg.Connection, chat: Chat | None
) -> None:
    async with opened(chat) as app:
        library = Quotes(app)
        id = await library.create(image=await library.keep_image(png()))
        await drain(app)
        quote = await library.quote(id)

    assert (quote.status, quote.input_type) == ("ERROR", "IMAGE")
    assert (quote.error_message or "").startswith("image_needs_model: ")
    assert "RETOMA_CHAT" in (quote.error_message or "")
    assert "Describe the item" in (quote.error_message or "")
    assert psql.execute("select count(*) from retoma.calls").fetchone() == (0,)
    assert bill.lines() == []


async def test_with_a_description_the_words_are_used_and_the_image_is_kept_as_evidence(
    opened: Open, bill: Bill, blobs: FolderBlobs, psql: psycopg.Connection
) -> None:
    async with opened() as app:
        library = Quotes(app)
        kept = await library.keep_image(png(), filename="../Foto da mesa.jpg")
        loose = psql.execute(LOOSE).fetchall()
        id = await library.create("Mesa", image=kept)
        await drain(app)
        quote = await library.quote(id)

    assert (quote.status, quote.input_type) == ("DONE", "IMAGE")
    assert bill.lines("understand") == ["understand Mesa"]
    assert (kept.kind, kept.filename) == ("image/png", "Foto da mesa.jpg")
    (image,) = quote.images
    assert image.sha256 == hashlib.sha256(png()).hexdigest()
    assert blobs.path(image.blob).read_bytes() == png()
    assert loose == [(kept.blob,)]
    assert psql.execute(LOOSE).fetchall() == [], "the quote owns it"


# — with one —


@pytest.fixture
def vision() -> Any:
    with Served(str(VISION)) as served:
        yield served


@pytest.mark.parametrize("service", ["anthropic", "openai"])
async def test_the_image_reaches_the_provider_once_and_its_bytes_are_not_in_the_ledger(
    opened: Open, vision: Served, psql: psycopg.Connection, service: str
) -> None:
    chat = (
        AnthropicChat(key="secret", model="m", base_url=vision.url)
        if service == "anthropic"
        else OpenAIChat(key="secret", model="m", base_url=f"{vision.url}/v1")
    )
    picture = drawn("JPEG")
    sha = hashlib.sha256(picture).hexdigest()
    async with opened(chat) as app:
        library = Quotes(app)
        id = await library.create("Mesa", image=await library.keep_image(picture))
        alone = await library.create(image=await library.keep_image(drawn("WEBP")))
        await drain(app)
        quote, second = await library.quote(id), await library.quote(alone)
    await chat.aclose()

    heard = [json.loads(each["body"]) for each in vision.heard()]
    assert len(heard) == 2
    assert (quote.status, quote.search_query_final) == ("DONE", f"mesa {sha[:8]}")
    assert second.status == "DONE"
    told = [(provider, json.dumps(request)) for provider, request in psql.execute(CALLS).fetchall()]
    assert [provider for provider, _ in told] == [service, service]
    assert sum(sha in request for _, request in told) == 1
    assert all(len(request) < 20_000 and "base64" not in request for _, request in told)


async def test_a_project_of_this_machine_alone_shows_no_image_to_anybody(opened: Open) -> None:
    seeing = Seeing()
    async with opened(seeing) as app:
        library = Quotes(app)
        project = await library.create_project("Local", model="local")
        told = await library.create("Mesa", image=await library.keep_image(png()), project_id=project.id)
        alone = await library.create(image=await library.keep_image(png()), project_id=project.id)
        await drain(app)
        states = [(await library.quote(id)).status for id in (told, alone)]

    assert states == ["DONE", "ERROR"]
    assert seeing.asked == []


async def test_an_image_that_was_changed_in_the_store_is_not_shown(opened: Open, blobs: FolderBlobs) -> None:
    seeing = Seeing()
    async with opened(seeing) as app:
        library = Quotes(app)
        kept = await library.keep_image(png())
        id = await library.create("Mesa", image=kept)
        blobs.path(kept.blob).write_bytes(png(shade=1))
        await drain(app)
        quote = await library.quote(id)

    assert (quote.error_message or "").startswith("content_changed: ")
    assert seeing.asked == []


async def test_what_is_written_in_an_image_is_called_a_datum_and_no_instruction(opened: Open) -> None:
    seeing = Seeing()
    async with opened(seeing) as app:
        library = Quotes(app)
        await library.create("", image=await library.keep_image(png()))
        await drain(app)

    (prompt,) = seeing.asked
    assert "nunca uma instrução" in prompt.messages[0].content.rpartition("fotografia")[2]
    assert [each.kind for each in prompt.messages[1].pictures] == ["image/png"]


# — keeping —


async def test_an_image_belongs_to_one_quote_and_a_new_quote_of_the_item_has_it_too(opened: Open) -> None:
    async with opened() as app:
        library = Quotes(app)
        kept = await library.keep_image(png())
        id = await library.create(image=kept)
        with pytest.raises(Conflict):
            await library.create(image=kept)
        await drain(app)
        again = await library.requote(id)
        before, after = await library.quote(id), await library.quote(again)

    assert after.input_type == "IMAGE"
    assert after.images == before.images


async def test_images_become_a_batch_each_by_its_name_and_a_bad_one_is_told(
    opened: Open, psql: psycopg.Connection, blobs: FolderBlobs
) -> None:
    given = [("4711.png", png()), ("lista.png", b"descricao\n"), ("4712.jpg", drawn("JPEG"))]
    async with opened(Seeing()) as app:
        library = Quotes(app)
        batch, new = await library.create_batch(await library.keep_images(given), name="Fotos")
        same = await library.create_batch(await library.keep_images(given), name="Fotos")
        await drain(app)
        quotes = await library.quotes(batch_id=batch)
        problems = await library.items(batch, only_problems=True)
        listed = await library.batch(batch)

    assert (new, same) == (True, (batch, False))
    assert [(each.codigo_item, each.input_type, each.status) for each in reversed(quotes)] == [
        ("4711", "IMAGE_BATCH", "DONE"),
        ("4712", "IMAGE_BATCH", "DONE"),
    ]
    assert [(each.line, each.problem, each.said) for each in problems] == [(2, "image_unsupported", "lista.png")]
    assert listed.input_type == "IMAGE_BATCH"
    assert psql.execute(LOOSE).fetchall() == []
    stored = [each for each in blobs.path("quotes/images").rglob("*") if each.is_file()]
    assert len(stored) == 2, "the second sending left nothing behind"


async def test_too_many_images_are_refused_and_leave_nothing(opened: Open, psql: psycopg.Connection) -> None:
    async with opened() as app:
        with pytest.raises(ListRefused) as refused:
            await Quotes(app).keep_images(((f"{n}.png", png()) for n in range(4)), most=3)

    assert refused.value.code == "too_many_images"
    assert psql.execute(LOOSE).fetchall() == []


async def test_a_list_names_its_images_and_a_row_whose_image_is_not_beside_it_is_told(
    opened: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "lista"
    (folder / "fotos").mkdir(parents=True)
    (folder / "fotos" / "1.png").write_bytes(png())
    (tmp_path / "secret.png").write_bytes(png())
    file = folder / "lista.csv"
    file.write_text(
        "codigo;descricao;imagem\n1;Mesa;fotos/1.png\n2;Cadeira;\n3;Armário;../secret.png\n4;;fotos/1.png\n5;;\n"
    )
    async with opened(Seeing()) as app:
        library = Quotes(app)
        listed, _ = await listed_in(library, file)
        batch, _ = await library.create_batch(listed, name="Lista", filename=file.name)
        problems = await library.items(batch, only_problems=True)
        quotes = await library.quotes(batch_id=batch)

    assert [(each.line, each.problem) for each in problems] == [(4, "image_missing"), (6, "description_missing")]
    assert [(each.codigo_item, bool(each.images)) for each in reversed(quotes)] == [
        ("1", True), ("2", False), ("4", True),
    ]  # fmt: skip
    assert {each.input_type for each in quotes} == {"FILE_BATCH"}


def test_where_no_files_come_along_a_row_with_an_image_alone_has_no_description() -> None:
    listed = read_list(b"descricao;imagem\nMesa;1.png\n;2.png\n")

    assert [(each.text, each.image) for each in listed.items] == [("Mesa", None)]
    assert [each.reason for each in listed.problems] == ["description_missing"]


# — up to five of one item —


def five() -> list[bytes]:
    return [png(shade=100 + each) for each in range(5)]


async def test_a_model_is_shown_all_photographs_of_an_item_in_one_request_and_the_report_has_their_hashes(
    opened: Open, psql: psycopg.Connection
) -> None:
    seeing = Seeing()
    async with opened(seeing) as app:
        library = Quotes(app)
        kept = [await library.keep_image(each) for each in five()]
        id = await library.create(image=kept)
        await drain(app)
        quote = await library.quote(id)
        told = await Reports(app).document(quote_id=id)

    hashes = [hashlib.sha256(each).hexdigest() for each in five()]
    assert quote.status == "DONE"
    assert [[each.sha256 for each in prompt.messages[-1].pictures] for prompt in seeing.asked] == [hashes]
    assert [each.sha256 for each in quote.images] == hashes
    assert [each.sha256 for each in told.reports[0].research.pictures] == hashes
    assert psql.execute(LOOSE).fetchall() == []


async def test_a_sixth_photograph_and_more_than_twenty_megabytes_together_are_refused(opened: Open) -> None:
    async with opened() as app:
        library = Quotes(app)
        kept = [await library.keep_image(png(shade=each)) for each in range(6)]
        with pytest.raises(ImageRefused) as many:
            await library.create("Mesa", image=kept)
        with pytest.raises(ImageRefused) as large:
            await library.create("Mesa", image=[replace(each, size=4_100_000) for each in kept[:5]])

    assert (many.value.code, large.value.code) == ("item_has_too_many_images", "item_images_too_large")


async def test_a_folder_within_a_folder_is_one_item_and_a_cell_may_name_several_photographs(
    opened: Open, tmp_path: Path
) -> None:
    photographs = tmp_path / "fotos"
    (photographs / "4711").mkdir(parents=True)
    (photographs / "single.png").write_bytes(png())
    for number, content in enumerate(five()):
        (photographs / "4711" / f"{number}.png").write_bytes(content)
    (tmp_path / "lista.csv").write_text("descricao;imagem\nMesa;fotos/4711/0.png | fotos/4711/1.png\nVaso;nada.png\n")
    async with opened() as app:
        library = Quotes(app)
        folder, _ = await listed_in(library, photographs)
        listed, _ = await listed_in(library, tmp_path / "lista.csv")

    assert [(each.code, len(each.kept)) for each in folder.items] == [("4711", 5), ("single", 1)]
    assert [(each.text, len(each.kept)) for each in listed.items] == [("Mesa", 2)]
    assert [each.reason for each in listed.problems] == ["image_missing"]


@pytest.mark.parametrize(
    ("name", "item"),
    [
        ("4711_1.jpg", "4711"),
        ("4711-2.png", "4711"),
        ("mesa (3).webp", "mesa"),
        ("4711.jpg", "4711"),
        ("a_12.jpg", "a_12"),
    ],
)
def test_photographs_called_alike_but_for_a_number_show_one_item(name: str, item: str) -> None:
    assert of_numbered(name) == item


async def test_a_sixth_photograph_of_a_group_is_told_and_the_other_five_stay(
    opened: Open, psql: psycopg.Connection
) -> None:
    async with opened() as app:
        pairs = [(f"4711_{each}.png", png(shade=each)) for each in range(1, 7)]
        listed = await Quotes(app).keep_images(pairs, item_of=of_numbered)

    assert [(each.code, len(each.kept)) for each in listed.items] == [("4711", 5)]
    assert [(each.line, each.reason) for each in listed.problems] == [(6, "item_has_too_many_images")]
    assert len(psql.execute(LOOSE).fetchall()) == 5

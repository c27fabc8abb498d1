"""Books that are made here: a seed says language, length, headings, layout and what stands around the chapters.

The truth about each book is known: with which words its chapters begin and end. Even seeds are for whoever changes the
detector; odd ones are only counted.
"""

# ruff: noqa: ARG005  # a table of lambdas reads best when all are alike; words when they are words
from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retoma.providers import Extraction, Page

ORDINALS = {
    "pt": ["Primeiro", "Segundo", "Terceiro", "Quarto", "Quinto", "Sexto", "Sétimo", "Oitavo", "Nono", "Décimo"],
    "en": ["One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"],
}
TENS = {
    "pt": ["Décimo Primeiro", "Décimo Segundo", "Décimo Terceiro", "Décimo Quarto", "Décimo Quinto"],
    "en": ["Eleven", "Twelve", "Thirteen", "Fourteen", "Fifteen"],
}
PEOPLE = {
    "pt": ["Helena", "Bento", "Virgília", "Rubião", "Quincas", "Sofia", "Eugênia", "Damasceno", "Lívia", "Estácio"],
    "en": ["Margaret", "Edwin", "Clara", "Thomas", "Isabel", "Ralph", "Dorothea", "Casper", "Gilbert", "Pansy"],
}
THINGS = {
    "pt": [
        "casa",
        "rua",
        "carta",
        "salina",
        "janela",
        "igreja",
        "viagem",
        "herança",
        "doença",
        "família",
        "fazenda",
        "ponte",
        "biblioteca",
        "escola",
        "chuva",
    ],
    "en": [
        "house",
        "street",
        "letter",
        "harbour",
        "window",
        "church",
        "journey",
        "fortune",
        "illness",
        "family",
        "farm",
        "bridge",
        "library",
        "school",
        "rain",
    ],
}
SENTENCES = {
    "pt": [
        "{a} olhou para a {x} e não disse nada durante muito tempo.",
        "A {x} ficava perto da {y}, e quem passava por ali lembrava de {a}.",
        "Naquele ano a {x} mudou, porque {a} e {b} deixaram a {y} para trás.",
        "Não se pode entender a {x} sem falar da {y}, que {b} conhecia bem.",
        "Por exemplo, {a} guardou a {x} durante {n} dias antes de contar a {b}.",
        "A {x} deve ser cuidada todos os dias, dizia {a} a quem quisesse ouvir.",
        "Chama-se {x} aquilo que a cidade inteira via da {y} ao fim da tarde.",
        "{b} escreveu {n} linhas sobre a {x} e rasgou todas antes do jantar.",
        "Quando a {y} fechou, {a} percebeu que a {x} tinha sido o mais importante.",
        "Ninguém na {y} sabia quanto {b} havia pago pela {x}.",
    ],
    "en": [
        "{a} looked at the {x} and said nothing for a long time.",
        "The {x} stood near the {y}, and those who passed it thought of {a}.",
        "In that year the {x} changed, because {a} and {b} left the {y} behind.",
        "One cannot understand the {x} without the {y}, which {b} knew so well.",
        "For example, {a} kept the {x} for {n} days before telling {b}.",
        "The {x} must be looked after every day, {a} used to say to whoever listened.",
        "It is called a {x}, that thing the whole town saw from the {y} at dusk.",
        "{b} wrote {n} lines about the {x} and tore them all up before dinner.",
        "When the {y} closed, {a} saw that the {x} had mattered most.",
        "Nobody in the {y} knew how much {b} had paid for the {x}.",
    ],
}
WORDS = {
    "pt": {
        "chapter": "Capítulo", "part": "Parte", "contents": "Índice", "notes": "Notas", "books": "Bibliografia",
        "author": "Sobre o autor", "thanks": "Agradecimentos", "to": "Para a minha mãe, que lia em voz alta.",
        "preface": "Prefácio", "end": "Epílogo", "intro": "Introdução", "conclusion": "Conclusão",
        "rights": "© 2019. Todos os direitos reservados. ISBN 978-85-0000-000-0.",
    },
    "en": {
        "chapter": "Chapter", "part": "Part", "contents": "Contents", "notes": "Notes", "books": "Bibliography",
        "author": "About the author", "thanks": "Acknowledgements", "to": "For my mother, who used to read aloud.",
        "preface": "Preface", "end": "Epilogue", "intro": "Introduction", "conclusion": "Conclusion",
        "rights": "© 2019. All rights reserved. ISBN 978-85-0000-000-0.",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """The words with which a chapter begins and ends."""

    begins: str
    ends: str


@dataclass(frozen=True)
class Book:
    name: str
    document: Extraction
    truth: tuple[Truth, ...]


def roman(value: int) -> str:
    parts = [(100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    said = ""
    for number, letter in parts:
        while value >= number:
            said, value = said + letter, value - number
    return said


class Writer:
    """Writes prose that can be told apart, and remembers where chapters begin and end."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.language = self.random.choice(["pt", "en"])
        self.truth: list[Truth] = []
        self.said = 0

    def word(self, name: str) -> str:
        return WORDS[self.language][name]

    def sentence(self) -> str:
        self.said += 1
        people, things = PEOPLE[self.language], THINGS[self.language]
        a, b = self.random.sample(people, 2)
        x, y = self.random.sample(things, 2)
        return self.random.choice(SENTENCES[self.language]).format(a=a, b=b, x=x, y=y, n=self.random.randint(3, 900))

    def paragraphs(self, words: int) -> list[str]:
        found: list[str] = []
        while sum(len(each.split()) for each in found) < words:
            found.append(" ".join(self.sentence() for _ in range(self.random.randint(3, 6))))
        return found

    def verse(self, words: int) -> list[str]:
        """Stanzas: lines are short, begin with a capital, and end as they like."""
        stanzas = []
        while sum(len(each.split()) for each in stanzas) < words:
            lines = []
            for _ in range(4):
                tokens = self.sentence().rstrip(".").split()[: self.random.randint(5, 8)]
                lines.append(" ".join(tokens).capitalize() + self.random.choice(["", ",", ".", "!"]))
            stanzas.append("\n".join(lines))
        return stanzas

    def dialogue(self, words: int) -> list[str]:
        found: list[str] = []
        noun = self.word("chapter")
        while sum(len(each.split()) for each in found) < words:
            found += [f"— {self.sentence()}", f"— {noun} {self.random.randint(1, 9)}.", f"— {self.sentence()}"]
            found.append(" ".join(self.sentence() for _ in range(4)))
        return found

    def title(self) -> str:
        people, things = PEOPLE[self.language], THINGS[self.language]
        x, y = self.random.sample(things, 2)
        a = self.random.choice(people)
        pt = [f"A {x} de {a}", f"Da {x} à {y}", f"O que {a} viu", f"Uma {x}"]
        en = [f"The {x} of {a}", f"From {x} to {y}", f"What {a} saw", f"One {x}"]
        return self.random.choice(pt if self.language == "pt" else en)

    def chapter(self, paragraphs: Sequence[str]) -> list[str]:
        flat = " ".join(" ".join(paragraphs).split()).split()
        self.truth.append(Truth(" ".join(flat[:12]), " ".join(flat[-12:])))
        return list(paragraphs)


# — headings: what each style says of chapter *n* —

Heads = Callable[[Writer, int, str], list[str]]


def _ordinal(writer: Writer, n: int) -> str:
    return [*ORDINALS[writer.language], *TENS[writer.language]][n - 1]


STYLES: dict[str, Heads] = {
    "named roman": lambda w, n, t: [f"{w.word('chapter').upper()} {roman(n)}"],
    "named roman, title below": lambda w, n, t: [f"{w.word('chapter').upper()} {roman(n)}", t],
    "named roman, TITLE below": lambda w, n, t: [f"{w.word('chapter')} {roman(n)}", t.upper()],
    "named digits": lambda w, n, t: [f"{w.word('chapter')} {n} – {t}"],
    "named digits, colon": lambda w, n, t: [f"{w.word('chapter').upper()} {n}: {t.upper()}"],
    "named words": lambda w, n, t: [f"{w.word('chapter')} {_ordinal(w, n)}"],
    "named words, title below": lambda w, n, t: [f"{w.word('chapter').upper()} {_ordinal(w, n).upper()}", t],
    "roman": lambda w, n, t: [roman(n)],
    "roman stop": lambda w, n, t: [f"{roman(n)}."],
    "roman, TITLE below": lambda w, n, t: [roman(n), t.upper()],
    "roman title": lambda w, n, t: [f"{roman(n)}. {t}"],
    "roman dash title": lambda w, n, t: [f"{roman(n)} — {t}"],
    "digits": lambda w, n, t: [str(n)],
    "numbered": lambda w, n, t: [f"{n}. {t}"],
    "words": lambda w, n, t: [_ordinal(w, n)],
    "markdown": lambda w, n, t: [f"## {t}"],
    "markdown named": lambda w, n, t: [f"# {w.word('chapter')} {n}: {t}"],
    "capitals": lambda w, n, t: [t.upper()],
    "titles": lambda w, n, t: [t],
}


# — layouts: blocks become pages —


def text_page(blocks: Sequence[str], width: int = 72) -> tuple[Page, ...]:
    """One page, wrapped, blank lines between paragraphs: a text file."""
    wrapped = ("\n".join(textwrap.fill(line, width) for line in block.split("\n")) for block in blocks)
    return (Page(number=1, text="\n\n".join(wrapped)),)


def flowing(blocks: Sequence[str]) -> tuple[Page, ...]:
    """One page, each paragraph on a line of its own: a DOCX."""
    return (Page(number=1, text="\n\n".join(blocks)),)


def printed(blocks: Sequence[str], head: str = "O LIVRO", *, blanks: bool = True) -> tuple[Page, ...]:
    """Pages of 38 lines with a running head and a number, as a PDF has them."""
    lines: list[str] = []
    for block in blocks:
        lines += [each for line in block.split("\n") for each in textwrap.wrap(line, 64)]
        lines += [""] if blanks else []
    pages = [lines[start : start + 38] for start in range(0, len(lines), 38)]
    return tuple(
        Page(number=number, text="\n".join([f"{head}", "", *page, "", str(number)]))
        for number, page in enumerate(pages, start=1)
    )


# — books —


def _titles(writer: Writer, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault(writer.title())
    return list(found)


def _front(writer: Writer) -> list[str]:
    return ["A SALINA E O VENTO" if writer.language == "pt" else "THE SALT AND THE WIND", "Ana Prado",
            writer.word("rights"), writer.word("to")]  # fmt: skip


def _contents(writer: Writer, heads: Sequence[Sequence[str]], how: str) -> list[str]:
    lines = [" ".join(head) for head in heads]
    if how == "dotted":
        lines = [f"{line} {'.' * 20} {9 + 14 * n}" for n, line in enumerate(lines)]
    elif how == "far":
        lines = [f"{line}      {9 + 14 * n}" for n, line in enumerate(lines)]
    return [writer.word("contents"), "\n".join(lines)]


def _notes(writer: Writer) -> list[str]:
    return [writer.word("notes"), *[f"{n}. {writer.sentence()}" for n in range(1, 9)]]


def _gutenberg(blocks: Sequence[str]) -> list[str]:
    return [
        "The Project Gutenberg EBook of a Book. This eBook is for the use of anyone anywhere.",
        "*** START OF THE PROJECT GUTENBERG EBOOK A BOOK ***",
        *blocks,
        "*** END OF THE PROJECT GUTENBERG EBOOK A BOOK ***",
        "THE FULL PROJECT GUTENBERG LICENSE",
        *[
            f"Section {n}. General Terms of Use\n\nYou may use this eBook under the license. The trademark license "
            "applies, "
            "copyright law and redistribution of Project Gutenberg works without warranty."
            for n in range(1, 6)
        ],
    ]


def ordinary(seed: int) -> Book:
    """A book of a random shape."""
    writer = Writer(seed)
    draw = writer.random
    style = draw.choice(sorted(STYLES))
    count = draw.randint(4, 15)
    titles = _titles(writer, count)
    heads = [STYLES[style](writer, n, title) for n, title in enumerate(titles, start=1)]
    blocks = _front(writer)
    contents = draw.choice(["none", "dotted", "far", "plain"])
    if contents != "none" and style not in {"roman", "roman stop", "digits", "words"}:
        blocks += _contents(writer, heads, contents)
    numbered = style not in {"markdown", "capitals", "titles"}
    if numbered and draw.random() < 0.4:
        blocks += [writer.word("preface"), *writer.chapter(writer.paragraphs(draw.randint(150, 400)))]
    for head in heads:
        blocks += [*head, *writer.chapter(writer.paragraphs(draw.randint(200, 1500)))]
    if numbered and draw.random() < 0.3:
        blocks += [writer.word("end"), *writer.chapter(writer.paragraphs(200))]
    if draw.random() < 0.5 and style != "markdown":
        blocks += _notes(writer)
    if draw.random() < 0.3 and style != "markdown":
        blocks += [writer.word("author"), writer.sentence()]
    if draw.random() < 0.25:
        blocks = _gutenberg(blocks)
    layout = draw.choice([text_page, flowing, printed])
    document = Extraction(pages=layout(blocks), reader="text")
    return Book(f"{seed} {style}, {layout.__name__}, contents {contents}", document, tuple(writer.truth))


def _made(name: str, writer: Writer, pages: Sequence[Page], **more: object) -> Book:
    return Book(name, Extraction(pages=tuple(pages), reader=more.pop("reader", "text"), **more), tuple(writer.truth))


def plain_contents(seed: int) -> Book:
    writer = Writer(seed)
    heads = [STYLES["named roman, title below"](writer, n, t) for n, t in enumerate(_titles(writer, 9), start=1)]
    blocks = [*_front(writer), "\n".join(" ".join(head) for head in heads), "\n".join(" ".join(h) for h in heads[:3])]
    for head in heads:
        blocks += [*head, *writer.chapter(writer.paragraphs(writer.random.randint(200, 900)))]
    return _made(f"{seed} contents twice and without a title", writer, text_page(blocks))


def contents_at_the_end(seed: int) -> Book:
    writer = Writer(seed)
    heads = [STYLES["roman title"](writer, n, t) for n, t in enumerate(_titles(writer, 12), start=1)]
    blocks = _front(writer)
    for head in heads:
        blocks += [*head, *writer.chapter(writer.paragraphs(writer.random.randint(150, 700)))]
    return _made(f"{seed} contents at the end", writer, text_page([*blocks, *_contents(writer, heads, "plain")]))


def notes_after_every_chapter(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for n, title in enumerate(_titles(writer, 8), start=1):
        blocks += [f"{writer.word('chapter')} {n}. {title}", *writer.chapter(writer.paragraphs(700)), *_notes(writer)]
    return _made(f"{seed} notes after every chapter", writer, text_page(blocks))


def verse(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for title in _titles(writer, 14):
        blocks += [title.upper(), *writer.chapter(writer.verse(writer.random.randint(120, 400)))]
    return _made(f"{seed} verse", writer, text_page(blocks))


def cantos(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for n in range(1, 8):
        blocks += [f"CANTO {roman(n)}", *writer.chapter(writer.verse(600))]
    return _made(f"{seed} cantos", writer, text_page(blocks))


def dialogue(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for n in range(1, 11):
        blocks += [f"{writer.word('chapter')} {n}", *writer.chapter(writer.dialogue(writer.random.randint(300, 800)))]
    return _made(f"{seed} dialogue with dashes", writer, text_page(blocks))


def many_romans(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for n in range(1, 61):
        blocks += [roman(n), *writer.chapter(writer.paragraphs(writer.random.randint(40, 500)))]
    return _made(f"{seed} sixty roman numerals", writer, text_page(blocks))


def two_books(seed: int) -> Book:
    writer = Writer(seed)
    blocks = []
    for work in ("PRIMEIRO ROMANCE", "SEGUNDO ROMANCE"):
        blocks += [work, "Ana Prado"]
        for n, title in enumerate(_titles(writer, 7), start=1):
            blocks += [roman(n), title.upper(), *writer.chapter(writer.paragraphs(writer.random.randint(200, 800)))]
    return _made(f"{seed} two books in one", writer, text_page(blocks))


def parts_with_chapters(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for part in range(1, 4):
        blocks += [f"{writer.word('part').upper()} {roman(part)}", writer.title()]
        for n in range(1, 7):
            blocks += [str(n), *writer.chapter(writer.paragraphs(writer.random.randint(200, 900)))]
    return _made(f"{seed} parts in which chapters are counted anew", writer, text_page(blocks))


def poor_navigation(seed: int) -> Book:
    """An EPUB whose navigation lists a note, "I" and the notes; 40 chapters are headed in the text."""
    writer = Writer(seed)
    titles = _titles(writer, 40)
    parts = [[writer.word("thanks"), writer.sentence()]]
    body: list[str] = []
    for n, title in enumerate(titles, start=1):
        body += [f"{writer.word('chapter').upper()} {roman(n)}", title, *writer.chapter(writer.paragraphs(350))]
    third = len(body) // 3
    parts += [body[:third], body[third : 2 * third], body[2 * third :], _notes(writer)]
    pages = [Page(number=number, text="\n\n".join(part)) for number, part in enumerate(parts, start=1)]
    outline = [(writer.word("thanks"), 1), ("I", 2), (writer.word("notes"), 5)]
    return _made(f"{seed} navigation with three entries", writer, pages, outline=outline, reader="epub")


def good_navigation(seed: int) -> Book:
    """Chapters that only the navigation tells apart, and sections that are numbered anew in each."""
    writer = Writer(seed)
    pages, outline = [Page(number=1, text="\n\n".join(_front(writer)))], [("Capa", 1)]
    for number, title in enumerate(_titles(writer, 8), start=2):
        sections: list[str] = []
        for n in range(1, 4):
            sections += [f"{n}. {writer.title()}", *writer.paragraphs(250)]
        flat = " ".join(" ".join(sections).split()).split()
        writer.truth.append(Truth(" ".join(flat[:12]), " ".join(flat[-12:])))
        pages.append(Page(number=number, text="\n\n".join([title, *sections])))
        outline.append((title, number))
    return _made(f"{seed} navigation with numbered sections below", writer, pages, outline=outline, reader="epub")


def licence_in_sections(seed: int) -> Book:
    writer = Writer(seed)
    blocks = []
    for n, title in enumerate(_titles(writer, 9), start=1):
        blocks += [f"{roman(n)} – {title}", *writer.chapter(writer.paragraphs(500))]
    return _made(f"{seed} a licence in numbered sections", writer, text_page(_gutenberg(blocks)))


def mentions(seed: int) -> Book:
    """Lines of the text that say "Capítulo 2", and lists that count 1, 2, 3."""
    writer = Writer(seed)
    noun = writer.word("chapter")
    blocks = _front(writer)
    for n in range(1, 10):
        paragraphs = writer.paragraphs(400)
        paragraphs[1] += f"\n{noun} {(n % 9) + 1}\n" + writer.sentence()
        paragraphs.insert(2, "\n".join(f"{point}. {writer.title()}" for point in range(1, 6)))
        blocks += [f"{noun} {n}", *writer.chapter(paragraphs)]
    return _made(f"{seed} chapters that are mentioned", writer, text_page(blocks))


def sections_of_a_thesis(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for n, title in enumerate(_titles(writer, 6), start=1):
        body = [writer.word("intro"), *writer.paragraphs(300), *writer.paragraphs(300), writer.word("conclusion")]
        blocks += [f"{writer.word('chapter')} {n}: {title}", *writer.chapter([*body, *writer.paragraphs(200)])]
    return _made(f"{seed} each chapter with an introduction", writer, printed(blocks))


def dense_pages(seed: int) -> Book:
    writer = Writer(seed)
    blocks = _front(writer)
    for n, title in enumerate(_titles(writer, 10), start=1):
        blocks += [f"{writer.word('chapter').upper()} {n}", title, *writer.chapter(writer.paragraphs(600))]
    return _made(f"{seed} pages without a blank line", writer, printed(blocks, blanks=False))


HOSTILE = (
    plain_contents, contents_at_the_end, notes_after_every_chapter, verse, cantos, dialogue, many_romans, two_books,
    parts_with_chapters, poor_navigation, good_navigation, licence_in_sections, mentions, sections_of_a_thesis,
    dense_pages,
)  # fmt: skip


def books(half: str) -> list[Book]:
    """The books of a half: "open", which the detector may be changed by, or "kept", which it may not."""
    odd = 1 if half == "kept" else 0
    plain = [ordinary(2 * seed + odd) for seed in range(30)]
    return [*plain, *(make(1_000 + 2 * n + odd) for n, make in enumerate(HOSTILE))]

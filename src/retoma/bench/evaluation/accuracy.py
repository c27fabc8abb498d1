"""How good the offline providers are, measured here and now on texts whose answers are known.

The texts were written by those who wrote the labels, though no template stands in both parts. Take the figures to
compare one way with another, and measure documents of your own with ``retoma accuracy --mine``.
"""

from __future__ import annotations

import asyncio
import importlib.util
import io
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from retoma.bench.evaluation import judging, labelled, reliability, samples, searching
from retoma.bench.evaluation.labelled import Labelled
from retoma.bench.evaluation.learning import learning
from retoma.bench.evaluation.refinement import refinement
from retoma.pipelines.books.text.editors import LocalEditor
from retoma.providers import Extraction, Page, Verdict
from retoma.providers.local.classify import LocalClassifier
from retoma.providers.local.embed import LocalEmbedder
from retoma.providers.local.encoder import Encoder, Lexical
from retoma.providers.local.errors import DocumentUnreadable
from retoma.providers.local.extract import LocalExtractor
from retoma.providers.local.kinds import detect
from retoma.providers.local.tfidf import Tfidf

Figures = dict[str, Any]

_TIMEOUT = 600.0
_SEED = 20260121


async def short_texts(encoder: Encoder | None = None) -> Figures:
    """Verdicts on the test part of the short texts, alone and as a list, beside the baseline and by confidence."""
    texts, kinds = labelled.documents("test"), labelled.labels()
    classifier = LocalClassifier(encoder)
    await classifier.classify([texts[0].text], kinds, timeout=_TIMEOUT)  # the model and the labels are loaded once
    began = time.perf_counter()
    alone = [(await classifier.classify([each.text], kinds, timeout=_TIMEOUT))[0] for each in texts]
    seconds = time.perf_counter() - began
    batch = await classifier.classify([each.text for each in texts], kinds, timeout=_TIMEOUT)
    return {
        "model": classifier.model,
        "texts": dict(Counter(each.language for each in texts)),
        "kinds": len(kinds),
        "alone": _right(texts, [verdict.label for verdict in alone]),
        "alone_by_language": {
            language: _right(*_of_language(texts, alone, language))
            for language in sorted({each.language for each in texts})
        },
        "batch": _right(texts, [verdict.label for verdict in batch]),
        "baseline": _right(texts, baseline(texts, with_cues=True)),
        "baseline_without_cues": _right(texts, baseline(texts, with_cues=False)),
        "by_confidence": {
            band: {"texts": len(told), "right": _share([each.kind == verdict.label for each, verdict in told])}
            for band in ("alta", "media", "baixa")
            if (told := [(each, v) for each, v in zip(texts, alone, strict=True) if v.confidence == band])
        },
        "texts_per_second": round(len(texts) / seconds, 1),
    }


def baseline(texts: Sequence[Labelled], *, with_cues: bool) -> list[str]:
    """What letters alone say: TF-IDF of pieces of three to five against the text of each label."""
    kinds = labelled.labels()
    known = Tfidf([" ".join((f"{each.name}. {each.description}", *(each.cues if with_cues else ()))) for each in kinds])
    return [kinds[int(known.similarities(each.text).argmax())].name for each in texts]


def _of_language(
    texts: Sequence[Labelled], verdicts: Sequence[Verdict], language: str
) -> tuple[list[Labelled], list[str]]:
    both = [(each, verdict.label) for each, verdict in zip(texts, verdicts, strict=True) if each.language == language]
    return [each for each, _ in both], [label for _, label in both]


def _right(texts: Sequence[Labelled], labels: Sequence[str]) -> float:
    return _share([each.kind == label for each, label in zip(texts, labels, strict=True)])


def _share(truths: Sequence[bool]) -> float:
    return round(sum(truths) / max(1, len(truths)), 3)


async def embedding() -> Figures:
    """How many texts a second, and whether translations are nearest to each other."""
    embedder = LocalEmbedder()
    texts = [each.text for each in labelled.documents()]
    await embedder.embed(texts[:1], timeout=_TIMEOUT)  # the model is loaded once per process
    began = time.perf_counter()
    await embedder.embed(texts, timeout=_TIMEOUT)
    seconds = time.perf_counter() - began
    both = await embedder.embed([*_PAIRS, *_PAIRS.values()], timeout=_TIMEOUT)
    rows = np.array(both.vectors)
    nearest = (rows[: len(_PAIRS)] @ rows[len(_PAIRS) :].T).argmax(axis=1)
    return {
        "model": embedder.model,
        "dimensions": embedder.dimensions,
        "texts_per_second": round(len(texts) / seconds, 1),
        "translations_found": _share((nearest == np.arange(len(_PAIRS))).tolist()),
    }


_PAIRS = {
    "O aluguel vence no dia cinco de cada mês.": "The rent is due on the fifth of each month.",
    "A testemunha não compareceu à audiência.": "The witness did not appear at the hearing.",
    "O médico recomendou repouso absoluto.": "The doctor recommended complete rest.",
    "A carga chegou ao porto com dois dias de atraso.": "The cargo reached the port two days late.",
    "O prédio precisa de um telhado novo.": "The building needs a new roof.",
    "Ela fala três línguas e toca piano.": "She speaks three languages and plays the piano.",
    "O preço da energia subiu dez por cento.": "The price of electricity rose by ten per cent.",
    "A reunião foi adiada para sexta-feira.": "The meeting was postponed until Friday.",
}


async def summaries() -> Figures:
    """Whether summaries have the counts they promise, quotes that stand in the text, and how much they cover."""
    editor = LocalEditor()
    chapters = [
        chapter
        for language in ("pt", "en")
        for chapter in editor.detect(
            Extraction(pages=(Page(number=1, text=labelled.book(language)),), reader="text")
        ).chapters
    ]
    digests = [await editor.summarise(chapter, ask=None, timeout=_TIMEOUT) for chapter in chapters]
    items = [[item for item in digest.coverage.items if item.critical] for digest in digests]
    return {
        "model": editor.model,
        "chapters": len(chapters),
        "audits_passed": sum(digest.passed for digest in digests),
        "summary_words": [len(digest.summary.text.split()) for digest in digests],
        "key_points": [len(digest.summary.key_points) for digest in digests],
        "quotes": [len(digest.summary.quotations) for digest in digests],
        "examples": [len(digest.summary.examples) for digest in digests],
        "sentences_read": [digest.coverage.read_sentences for digest in digests],
        "critical_items": [len(each) for each in items],
        "critical_missing": sum(not item.covered for each in items for item in each),
    }


async def extraction() -> Figures:
    """Whether documents of every kind give back the words they were made of, and what becomes of damaged ones."""
    text = labelled.book("pt").strip()
    extractor = LocalExtractor()
    with tempfile.TemporaryDirectory(prefix="retoma-accuracy-") as folder:
        told: Figures = {}
        for kind, make in samples.MAKERS.items():
            file = _write(Path(folder, f"sample.{kind}"), make(text))
            began = time.perf_counter()
            reading = await extractor.extract(file, kind=detect(file), timeout=_TIMEOUT)
            seconds = time.perf_counter() - began
            told[kind] = {"words_right": round(words_right(text, reading.text), 4), "seconds": round(seconds, 3)}
        return {
            "kinds": told,
            "damaged_pdfs": await _damaged(extractor, Path(folder), text),
            "pdfs_per_second": await _pace(extractor, Path(folder)),
        }


async def _pace(extractor: LocalExtractor, folder: Path) -> float:
    """How many short PDFs are read in a second, by as many children as there are cores."""
    files = [
        _write(folder / f"short-{number}.pdf", samples.pdf(each.text))
        for number, each in enumerate(labelled.documents())
    ]
    began = time.perf_counter()
    await asyncio.gather(*(extractor.extract(file, kind="pdf", timeout=_TIMEOUT) for file in files))
    return round(len(files) / (time.perf_counter() - began), 1)


async def _damaged(extractor: LocalExtractor, folder: Path, text: str) -> Figures:
    """Thirty broken copies of one PDF: read right, refused with a code, or (which must not be) read wrong."""
    whole, chance = samples.pdf(text), random.Random(_SEED)  # noqa: S311  # the same faults every time
    ends: Counter[str] = Counter()
    for number in range(30):
        broken = _break(whole, number, chance)
        file = _write(folder / f"broken-{number}.pdf", broken)
        try:
            reading = await extractor.extract(file, kind=detect(file), timeout=_TIMEOUT)
            ends["read" if words_right(text, reading.text) > 0.95 else "read in part"] += 1  # noqa: PLR2004  # a few letters
        except DocumentUnreadable as error:
            ends[error.code] += 1
    return dict(ends)


def _break(whole: bytes, number: int, chance: random.Random) -> bytes:
    if number < 10:  # noqa: PLR2004  # ten cut, ten flipped, ten without their beginning
        return whole[: int(len(whole) * (0.5 + number / 20))]
    if number < 20:  # noqa: PLR2004  # as above
        broken = bytearray(whole)
        for _ in range(20):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        return bytes(broken)
    return whole[chance.randrange(1, 400) :]


def _write(file: Path, content: bytes) -> Path:
    file.write_bytes(content)
    return file


def words_right(expected: str, found: str) -> float:
    """The share of the words of *expected* that are in *found*, as often as they should be."""
    want, have = Counter(expected.split()), Counter(found.split())
    return sum((want & have).values()) / max(1, sum(want.values()))


async def ocr() -> Figures:
    """The share of wrong characters on a page made into a picture, clean and as a rough scan."""
    if importlib.util.find_spec("PIL") is None:
        return {"skipped": "Pillow is not installed, and without it no picture can be made."}
    text = "\n".join(samples.wrapped(labelled.book("pt").split("A água e o vento\n\n")[1][:1400], 80))
    told: Figures = {}
    with tempfile.TemporaryDirectory(prefix="retoma-accuracy-") as folder:
        for name, picture in (("clean", _scan(text, rough=False)), ("rough", _scan(text, rough=True))):
            file = _write(Path(folder, f"{name}.png"), picture)
            began = time.perf_counter()
            try:
                reading = await LocalExtractor().extract(file, kind="png", timeout=_TIMEOUT)
            except DocumentUnreadable as error:
                return {"skipped": str(error)}
            told["engine"] = reading.reader
            told[name] = {
                "character_errors": round(character_errors(text, reading.text), 4),
                "seconds": round(time.perf_counter() - began, 1),
            }
    return told


def _scan(text: str, *, rough: bool) -> bytes:
    """The page as a picture of 200 dots per inch; rough: of 150, turned a little, blurred, and packed as JPEG."""
    import pypdfium2  # type: ignore[import-untyped]  # noqa: PLC0415  # heavy, and only needed here
    from PIL import Image, ImageFilter  # noqa: PLC0415  # as above

    document = pypdfium2.PdfDocument(samples.pdf(text))
    image = document[0].render(scale=(150 if rough else 200) / 72).to_pil().convert("L")
    document.close()
    if rough:
        image = image.rotate(0.7, fillcolor=255, resample=Image.Resampling.BICUBIC).filter(
            ImageFilter.GaussianBlur(0.6)
        )
        packed = io.BytesIO()
        image.save(packed, "JPEG", quality=45)
        image = Image.open(packed)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def character_errors(expected: str, found: str) -> float:
    """The edits that make *found* into *expected*, for each character of *expected*; line ends count as blanks."""
    expected, found = " ".join(expected.split()), " ".join(found.split())
    before = np.arange(len(found) + 1)
    letters = np.array([ord(letter) for letter in found])
    steps = np.arange(1, len(found) + 1)
    for count, letter in enumerate(expected, start=1):
        changed = np.minimum(before[1:] + 1, before[:-1] + (letters != ord(letter)))
        # What is left is the cost of characters too many, from left to right.
        row = np.minimum.accumulate(np.concatenate(([count], changed - steps))) + np.concatenate(([0], steps))
        before = row
    return float(before[-1]) / max(1, len(expected))


MEASURES: dict[str, Callable[[], Any]] = {
    "documents": judging.documents,
    "news": judging.news,
    "calibration": reliability.calibration,
    "short_texts": short_texts,
    "short_texts_without_encoder": lambda: short_texts(Lexical()),
    "refinement": refinement,
    "learning": learning,
    "search": searching.search,
    "embedding": embedding,
    "summaries": summaries,
    "extraction": extraction,
    "ocr": ocr,
}


def measure(names: Sequence[str] = ()) -> Figures:
    """All figures, or those of these *names*."""

    async def run() -> Figures:
        return {name: await take() for name, take in MEASURES.items() if not names or name in names}

    return asyncio.run(run())

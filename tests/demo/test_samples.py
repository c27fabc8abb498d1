"""The sample documents: the same every time, of known kinds, and bad where they are meant to be bad."""

import hashlib
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from retoma.bench.evaluation import labelled
from retoma.bench.evaluation.accuracy import baseline
from retoma.bench.evaluation.labelled import Labelled
from retoma.demo import program, samples
from retoma.demo.samples import Fate, Sample
from retoma.providers.local import DocumentUnreadable, LocalClassifier, LocalExtractor
from retoma.providers.local.kinds import detect
from retoma.providers.local.readers import ocr

pytestmark = pytest.mark.timeout(600)  # a picture of a whole page is read, and on a busy machine that takes a while

KINDS = labelled.kinds()
TIMEOUT = 240.0

ENDS = {
    Fate.TRUNCATED: "document_damaged",
    Fate.GARBLED: "document_damaged",
    Fate.ENCRYPTED: "document_encrypted",
    Fate.DEADLY: "parser_crashed",
}


def content(folder: Path, made: list[Sample]) -> list[bytes]:
    return [(folder / sample.name).read_bytes() for sample in made]


def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(tmp_path: Path) -> None:
    first, again, other = (tmp_path / name for name in ("first", "again", "other"))
    made = samples.write(first, 240)

    assert samples.write(again, 240) == made
    assert content(again, made) == content(first, made)
    others = content(other, samples.write(other, 240, seed=1))
    assert not {*map(hash, others)} & {*map(hash, content(first, made))}


def test_no_two_documents_are_equal_and_every_kind_is_there_as_often(tmp_path: Path) -> None:
    made = samples.write(tmp_path, 240)

    hashes = {hashlib.sha256(each).digest() for each in content(tmp_path, made)}
    assert len(hashes) == len(made) == len(list(tmp_path.iterdir())) == 240
    assert Counter(sample.kind for sample in made) == dict.fromkeys(KINDS, 30)
    assert Counter(sample.language for sample in made)["pt"] > 120
    assert len({len(samples.invent(Random(n), "contrato", "pt")) for n in range(20)}) > 15


@pytest.mark.parametrize("documents", [60, 240])
def test_every_file_is_by_its_content_what_it_is_called(tmp_path: Path, documents: int) -> None:
    for sample in samples.write(tmp_path, documents):
        assert detect(tmp_path / sample.name) == sample.name.rpartition(".")[2]


@pytest.mark.parametrize("seed", [samples.SEED, 1, 2])
async def test_what_is_meant_to_be_bad_is_refused_for_its_own_reason(tmp_path: Path, seed: int) -> None:
    extractor = LocalExtractor(readers=program.READERS)
    made = [sample for sample in samples.write(tmp_path, 60, seed=seed) if sample.fate in ENDS]
    ends = {}
    for sample in made:
        with pytest.raises(DocumentUnreadable) as caught:
            await extractor.extract(tmp_path / sample.name, kind="pdf", timeout=TIMEOUT)
        ends[sample.name] = caught.value.code
        assert (caught.value.signal == 11) is (sample.fate is Fate.DEADLY)

    assert {sample.fate for sample in made} == set(ENDS)
    assert ends == {sample.name: ENDS[sample.fate] for sample in made}


async def test_what_is_meant_to_be_read_gives_back_its_text(tmp_path: Path) -> None:
    extractor = LocalExtractor(readers=program.READERS)
    made = [sample for sample in samples.write(tmp_path, 60) if sample.fate in {Fate.READ, Fate.UNLUCKY}]
    per_form = {sample.name.rpartition(".")[2]: sample for sample in made}

    for form, sample in per_form.items():
        reading = await extractor.extract(tmp_path / sample.name, kind=form, timeout=TIMEOUT)
        assert len(reading.text) > 300
        assert ("Protocolo" if sample.language == "pt" else "Entry") in reading.text
    assert set(per_form) == {"pdf", "docx", "txt", "html"}


async def test_the_scanned_page_has_no_text_until_somebody_reads_the_picture(tmp_path: Path) -> None:
    (scan,) = [sample for sample in samples.write(tmp_path, 60) if sample.fate is Fate.SCANNED]
    asked = LocalExtractor().extract(tmp_path / scan.name, kind="pdf", timeout=TIMEOUT)

    if ocr.available():
        reading = await asked
        assert {page.source for page in reading.pages} == {"ocr"}
        assert len(reading.text) > 300
    else:
        with pytest.raises(DocumentUnreadable) as caught:
            await asked
        assert caught.value.code == "ocr_unavailable"


async def test_the_classifier_tells_the_kinds_better_than_letters_alone() -> None:
    texts = [
        Labelled(kind, language, "test", samples.invent(Random(f"{kind} {language} {number}"), kind, language))
        for kind in KINDS
        for language, count in (("pt", 7), ("en", 2))
        for number in range(count)
    ]
    classifier = LocalClassifier()
    verdicts = [(await classifier.classify([each.text], labelled.labels(), timeout=TIMEOUT))[0] for each in texts]

    right = sum(each.kind == verdict.label for each, verdict in zip(texts, verdicts, strict=True))
    letters = sum(each.kind == found for each, found in zip(texts, baseline(texts, with_cues=True), strict=True))
    assert len(texts) == 72
    assert right > letters
    assert right >= 0.9 * len(texts)

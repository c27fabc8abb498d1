"""The held-out set is what it says, its figures are right, and a folder of one's own can be measured."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from retoma.bench.evaluation import calibrating, figures, heldout, judging, reliability
from retoma.bench.evaluation.cli import accuracy as command
from retoma.bench.evaluation.heldout import labels as label_sets
from retoma.bench.evaluation.mine import mine
from retoma.errors import ConfigurationError
from retoma.providers.local.encoder import best_encoder

pytestmark = pytest.mark.timeout(600)

PARTS = [(made, language) for made in (heldout.documents, heldout.news) for language in heldout.LANGUAGES]
SHINGLE = 5


def _shingles(body: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", re.sub(r"\{\w+\}", " ", body).lower())
    return set(zip(*(words[start:] for start in range(SHINGLE)), strict=False))


# — the set —


def test_the_test_part_has_four_hundred_portuguese_and_two_hundred_english_documents_of_ten_kinds() -> None:
    portuguese, english = (heldout.documents("test", language) for language in ("pt", "en"))

    assert len(portuguese) >= 400
    assert len(english) >= 200
    assert len({each.label for each in portuguese}) == len({each.label for each in english}) >= 10
    assert len({each.text for each in portuguese}) == len(portuguese)


@pytest.mark.parametrize("language", heldout.LANGUAGES)
@pytest.mark.parametrize("family", ["kinds", "topics"])
def test_no_template_stands_on_both_sides_not_even_in_part(family: str, language: str) -> None:
    every = heldout.templates(family, language)
    dev, test = ([each for each in every if each.split == split] for split in ("dev", "test"))

    assert {each.split for each in every} == {"dev", "test"}
    assert {each.name for each in dev}.isdisjoint(each.name for each in test)
    for one, other in itertools.product(dev, test):
        left, right = _shingles(one.body), _shingles(other.body)
        assert len(left & right) <= 0.2 * max(1, min(len(left), len(right))), (one.name, other.name, left & right)


def test_each_text_names_a_template_of_its_own_side() -> None:
    for made, language in PARTS:
        for split in ("dev", "test"):
            family = "kinds" if made is heldout.documents else "topics"
            own = {each.name for each in heldout.templates(family, language) if each.split == split}
            assert {each.template for each in made(split, language)} <= own


def test_the_same_texts_are_made_every_time_and_no_slot_stays_empty() -> None:
    first = heldout.documents("dev", "pt", copies=3)
    heldout._made.cache_clear()

    assert heldout.documents("dev", "pt", copies=3) == first
    for made, language in PARTS:
        assert not [each for each in made("test", language) if re.search(r"[{}]|\[[^\]]*\|", each.text)]


def test_every_text_has_a_label_that_can_be_chosen() -> None:
    for made, language in PARTS:
        chosen = label_sets.kinds if made is heldout.documents else label_sets.topics
        for described in (False, True):
            labels = chosen(language, described=described)
            assert {each.label for each in made("test", language)} <= set(labels)
            assert len({each.name for each in labels.values()}) == len(labels)


def test_strange_questions_of_one_part_are_not_in_the_other_nor_about_the_texts() -> None:
    for language in heldout.LANGUAGES:
        dev, test = (heldout.strange(split, language) for split in ("dev", "test"))
        assert len(dev) == len(test) == len({*dev, *test}) // 2
        assert all(each.endswith("?") for each in (*dev, *test))
    with pytest.raises(ValueError, match="no strange questions"):
        heldout.strange("train", "pt")


# — the figures —


def test_exact_scores_of_few_templates_show_an_error_and_those_of_many_hardly_one() -> None:
    scores = [0.7] * 1000

    few = reliability.exact([str(each % 4) for each in range(1000)], scores)
    many = reliability.exact([str(each) for each in range(1000)], scores)

    assert many < 0.03 < few
    assert reliability.exact(["one", "two"], [1.0, 1.0]) == 0


def test_judgements_are_told_by_how_many_labels_and_words_they_have(monkeypatch: pytest.MonkeyPatch) -> None:
    views = np.zeros((4, 60, 2))
    views[:, :, 0] = 2.0
    case = calibrating.Case(views, np.zeros(60, dtype=np.int64), np.full(60, 50.0), [str(each) for each in range(60)])
    monkeypatch.setattr("retoma.bench.evaluation.calibrating.cases", lambda *_, **__: iter([case]))

    made = list(reliability.judgements("dev", described=True))
    cells = dict(reliability._cells(made))

    assert list(cells) == ["labels_2-3.words_40-99"]
    assert cells["labels_2-3.words_40-99"]["right"] == 1
    assert reliability.error_of(made)["calibration_error"] == pytest.approx(1 - made[0].score, abs=0.001)


def test_an_interval_holds_its_share_and_grows_when_texts_are_few_or_alike() -> None:
    low, high = figures.wilson(8, 10)
    apart = figures.by_template([True, False] * 50, [str(each) for each in range(100)])
    alike = figures.by_template([True, False] * 50, [str(each % 2) for each in range(100)])

    assert low < 0.8 < high
    assert (low, high) == (0.49, 0.943)
    assert alike[1] - alike[0] > 2 * (apart[1] - apart[0])
    assert figures.wilson(0, 0) == (0.0, 1.0)


def test_scores_that_say_what_happens_have_no_calibration_error() -> None:
    assert figures.calibration_error([True, False, True, False], [0.5] * 4) == 0
    assert figures.calibration_error([False] * 4, [1.0] * 4) == 1
    assert figures.at_coverage([True] * 9 + [False], [0.9] * 9 + [0.1]) == 1
    assert figures.majority(["a", "a", "b"]) == pytest.approx(0.667)


async def test_a_small_sample_is_judged_better_than_by_cosine_and_majority() -> None:
    told = (await judging.documents(split="dev", copies=1))["pt"]

    assert told["texts"] == told["templates"] == 36
    for naming in ("names", "described"):
        assert told[naming]["right"] > told[naming]["plain_cosine"] > told["majority"]
    assert told["described"]["right"] > told["names"]["right"]
    low, high = told["described"]["interval"]
    assert low <= told["described"]["right"] <= high
    assert sum(each["texts"] for each in told["described"]["by_confidence"].values()) == 36


async def test_an_official_letter_and_a_ruling_are_no_petition() -> None:
    texts = [each for each in heldout.documents("dev", "pt", copies=2) if each.label in {"ofício", "sentença"}]
    labels = label_sets.kinds("pt", described=True)
    encoder = judging.Remembering(best_encoder())

    judged = await judging.judge(
        [each.text for each in texts],
        [each.label for each in texts],
        [each.template for each in texts],
        list(labels.values()),
        encoder,
    )

    assert "petição" not in {verdict.label for verdict in judged.verdicts if verdict.confidence == "alta"}
    assert sum(judged.right) >= 0.8 * len(texts)


# — a folder of one's own —


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label in ("contrato", "recibo"):
        (tmp_path / label).mkdir()
        for number, each in enumerate(each for each in heldout.documents("dev", "pt", copies=1) if each.label == label):
            (tmp_path / label / f"{number}.txt").write_text(each.text, encoding="utf-8")
    return tmp_path


def test_a_folder_of_ones_own_is_measured_and_what_cannot_be_read_is_told(folder: Path) -> None:
    (folder / "recibo" / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (folder / "recibo" / ".hidden").write_text("x")

    ran = CliRunner().invoke(command, ["--mine", str(folder), "--json"])

    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)["mine"]
    assert (told["texts"], told["labels"], told["unreadable"]) == (6, 2, 1)
    assert list(told["unreadable_files"]) == ["recibo/broken.pdf"]
    assert told["right"] >= 0.5
    assert len(told["wrong_files"]) == 6 - round(6 * told["right"])
    assert told["taught_by_the_batch"] == {"outcome": "too_few"}


async def test_descriptions_come_from_a_file_that_names_every_subfolder(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("- contrato: Acordo entre partes\n- ata: Registro de uma reunião\n")

    with pytest.raises(ConfigurationError, match="does not name 'recibo'"):
        await mine(folder, described=labels)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([], "has no document in a subfolder"),
        (["loose.txt"], "has no document in a subfolder"),
        (["a/1.txt"], "has one label, 'a', and two are needed"),
        (["a/1.txt", "b/empty.pdf"], "Documents of 1 label could be read .* 1 could not be read \\(b/empty.pdf: "),
    ],
)
async def test_a_folder_that_cannot_be_measured_says_why(tmp_path: Path, files: list[str], why: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("" if name.endswith("pdf") else "O aluguel vence no dia cinco de cada mês.")

    with pytest.raises(ConfigurationError, match=why) as caught:
        await mine(tmp_path)

    assert "subfolder of its name" in str(caught.value.next)


def test_a_figure_and_a_folder_are_not_asked_for_together(folder: Path) -> None:
    both = CliRunner().invoke(command, ["news", "--mine", str(folder)])
    alone = CliRunner().invoke(command, ["--labels", str(folder / "contrato" / "0.txt")])

    assert (both.exit_code, alone.exit_code) == (2, 2)
    assert "name no FIGURE beside it" in both.output
    assert "give --mine" in alone.output

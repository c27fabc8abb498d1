"""A worker that is killed while a batch refines, or before: nothing is judged again, and no piece is half applied."""

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
from retoma.pipelines.classification.taught_file import Said
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


def changes(oracle: Oracle, finding: int) -> tuple[int, int]:
    """How many changes of a finding are planned, and how many are applied."""
    planned, applied = oracle.rows(
        "select count(*), count(applied_at) from classification.changes where finding_id = %s", finding
    )[0]
    return planned, applied


def assert_each_piece_once(fleet: Fleet, finding: int) -> None:
    """Only the piece that hung was done again."""
    pieces = Counter(line for line in diary(fleet) if line.startswith(f"apply {finding} "))
    assert sorted(pieces.values()) == [1] * (len(pieces) - 1) + [2]


async def test_a_worker_killed_in_the_middle_of_a_refinement_leaves_nothing_half_applied_and_nothing_is_judged_again(
    fleet: Fleet, oracle: Oracle, library: Classification, tmp_path: Path
) -> None:
    project = await prepare(library, tmp_path / "texts")
    hold = fleet.folder / "hold"
    hold.touch()
    id = (await library.start(project)).id
    killed = start(fleet, "ana")
    await until(lambda: "held" in diary(fleet), seconds=300, what="it hangs inside the third piece")
    before = changes(oracle, 1)
    killed.send(signal.SIGKILL, executors=True, supervisor=True)
    hold.unlink()

    start(fleet, "bruno")
    await until(lambda: oracle.batch(id)[0] == "completed", seconds=300, what="it is completed")

    planned, applied = changes(oracle, 1)
    assert before == (planned, 2), "two pieces were committed, and the third was not"
    assert planned == applied > 3
    assert diary(fleet).count("judge") == 1, "it was decided once"
    assert_each_piece_once(fleet, 1)
    assert await library.app.system.verify() == []
    again = (await library.start(project, reuse=False)).id
    await until(lambda: oracle.batch(again)[0] == "completed", seconds=300, what="the second is completed")
    assert await found(library, id) == await found(library, again), "the same as where nobody was killed"


async def test_a_worker_killed_in_a_refinement_by_button_leaves_nothing_half_applied_and_each_change_is_kept(
    fleet: Fleet, oracle: Oracle, library: Classification, tmp_path: Path
) -> None:
    project = await prepare(library, tmp_path / "texts")
    id = (await library.start(project, refine=False)).id
    killed = start(fleet, "ana")
    await until(lambda: oracle.batch(id)[0] == "completed", seconds=300, what="all are classified alone")
    first = {each.code: each.category for each in await library.results(id)}
    said = [Said(line=n, document=f"{kind}-{n:02}.txt", label=kind) for kind in KINDS for n in range(2)]
    said.append(Said(line=9, document="futebol-09.txt", label="culinária"))  # a person's word, right or wrong
    await library.teach(project, said, by="ana")
    hold = fleet.folder / "hold"
    hold.touch()

    asked, _ = await library.refine(id, by="ana")
    await until(lambda: "held" in diary(fleet), seconds=300, what="it hangs inside the third piece")
    finding = oracle.rows("select id from classification.findings where job_id = %s", asked.job_id)[0][0]
    before = changes(oracle, finding)
    killed.send(signal.SIGKILL, executors=True, supervisor=True)
    hold.unlink()
    start(fleet, "bruno")
    done = "select state from retoma.jobs where id = %s"
    await until(lambda: oracle.rows(done, asked.job_id)[0][0] == "completed", seconds=300, what="it is refined")

    planned, applied = changes(oracle, finding)
    assert before == (planned, 2), "two pieces were committed, and the third was not"
    assert planned == applied > 3
    assert diary(fleet).count("judge") == 1, "it was decided once"
    assert_each_piece_once(fleet, finding)
    now = {each.code: each for each in await library.results(id)}
    moved = {code for code, each in now.items() if each.category != first[code] and each.decided_by is None}
    assert {code: now[code].was_label for code in moved} == {code: first[code] for code in moved}
    assert (await library.refinement(asked.id)).changed == len(moved)
    assert (now["futebol-09.txt"].category, now["futebol-09.txt"].decided_by) == ("culinária", "ana")
    assert await library.app.system.verify() == []


async def test_a_worker_killed_while_documents_are_classified_redoes_none_of_them_and_the_last_step_follows(
    fleet: Fleet, oracle: Oracle, library: Classification, tmp_path: Path
) -> None:
    project = await prepare(library, tmp_path / "texts")
    stop = fleet.folder / "stop"
    stop.write_text("25")
    id = (await library.start(project)).id
    killed = start(fleet, "ana")
    await until(lambda: diary(fleet).count("stopped") == 5, seconds=300, what="25 are done, and five hang")
    done = "select count(*) from retoma.classifications where processed_at is not null"
    await until(lambda: oracle.rows(done)[0][0] >= 25, seconds=300, what="the results of the first are saved")
    killed.send(signal.SIGKILL, executors=True, supervisor=True)
    stop.unlink()

    start(fleet, "bruno")
    await until(lambda: oracle.batch(id)[0] == "completed", seconds=300, what="it is completed")

    read = Counter(line for line in diary(fleet) if line.startswith("classify "))
    assert (len(read), set(read.values())) == (60, {1}), "each was classified once"
    assert diary(fleet).count("judge") == 1
    finding = await library.finding(id)
    assert finding is not None
    assert (finding.documents, finding.applied) == (60, changes(oracle, finding.id)[0])
    assert await library.app.system.verify() == []
    again = (await library.start(project, reuse=False)).id
    await until(lambda: oracle.batch(again)[0] == "completed", seconds=300, what="the second is completed")
    assert await found(library, id) == await found(library, again), "the same as where nobody was killed"

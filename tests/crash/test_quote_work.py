"""Work around quotes whose worker is killed: reports that it writes, prices of the bank that it looks up again."""

from __future__ import annotations

import hashlib
import signal
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest
from fleet import Fleet, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes import bank
from retoma.pipelines.quotes.banking import PriceBank
from retoma.pipelines.quotes.pricing.verify import read
from retoma.pipelines.quotes.reports import Reports
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
from test_quotes import Gate, bill, done, gate, start  # isort: skip - the gate is that of the other quotes

__all__ = ["gate"]

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TWICE = "select step from retoma.checkpoints where job_id = %s group by step having count(*) > 1"
ENDED = "select 1 from retoma.jobs where id = %s and state = 'completed'"


@pytest.fixture
async def library(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PriceBank]:
    folder = fleet.folder / "blobs"
    monkeypatch.setenv("VISION_BLOBS", str(folder))
    async with Retoma(fleet.url, extensions=[QUOTES], providers={BlobStore: FolderBlobs(folder)}) as app:
        yield PriceBank(app)


@pytest.mark.parametrize("step", ["begin", "part/%", "pdf", "xlsx", "ready"])
async def test_a_report_whose_worker_is_killed_goes_on_at_the_next_part_and_is_closed_once(
    fleet: Fleet, oracle: Oracle, library: PriceBank, gate: Gate, step: str
) -> None:
    batch, _ = await library.create_batch(b"descricao\nMesa\nCadeira\n", name="Lote")
    worker = start(fleet, "ana")
    await until(
        lambda: oracle.rows("select 1 from quotes.quote_requests having count(*) filter (where status = 'DONE') = 2"),
        seconds=120,
        what="both quotes are done",
    )
    reports = Reports(library.app)
    draft = await reports.document(batch_id=batch)
    gate.close(step)
    made = await reports.order(batch, closing=True, by="ana")
    await until(gate.waiting, what=f"a worker is about to save {step}")
    worker.send(signal.SIGKILL, executors=True, supervisor=False)
    gate.open()
    await until(lambda: oracle.rows(ENDED, made.job_id), seconds=120, what="the report is closed")
    closed = await library.closed_report(batch_id=batch)
    content = await reports.blob(closed.pdf_blob or "")

    assert oracle.rows("select count(*) from quotes.closed_reports") == [(1,)]
    assert oracle.rows(TWICE, made.job_id) == []
    assert [each.research for each in read(content or b"").reports] == [each.research for each in draft.reports]
    assert [*(fleet.folder / "blobs").rglob("parts/*/*.json")] == []


@pytest.mark.parametrize("step", ["vehicle", "search/table", "evidence/table", "update"])
async def test_a_price_of_the_bank_is_looked_up_and_changed_once_wherever_its_worker_is_killed(
    fleet: Fleet, oracle: Oracle, library: PriceBank, gate: Gate, step: str
) -> None:
    query = bank.put(codigo_fipe="001004-9", ano=2012, marca="Fiat", modelo="Uno", price=Decimal(20000), quote_id=None)
    await library.app.fetch(query)
    worker = start(fleet, "ana")
    gate.close(step)
    batch, _ = await library.update(by="ana")
    await until(gate.waiting, what=f"a worker is about to save {step}")
    worker.send(signal.SIGKILL, executors=True, supervisor=False)
    gate.open()
    await until(
        lambda: oracle.rows("select 1 from retoma.batches where id = %s and state = 'completed'", batch),
        seconds=120,
        what="the price is up to date",
    )

    assert sum(bill(fleet).values()) == 1
    assert [(each.price_before, each.price_after, each.state) for each in await library.updates()] == [
        (Decimal("20000.00"), Decimal("21345.00"), "APPLIED")
    ]
    assert [each.price for each in await library.bank()] == [Decimal("21345.00")]


@pytest.mark.parametrize(("step", "times"), [("page", 1), ("picture", 2), ("kept", 1)])
async def test_a_picture_whose_worker_is_killed_is_kept_once_and_taken_again_only_where_it_was_not_saved(
    fleet: Fleet, oracle: Oracle, library: PriceBank, gate: Gate, step: str, times: int
) -> None:
    worker = start(fleet, "ana")
    id = await library.create("Mesa")
    await done(library, oracle, id)
    source = next(each for each in await library.sources(id) if each.evidence_kind == "text/html")
    page = f"<html>{source.price_value:.0f}</html>".encode()
    assert hashlib.sha256(page).hexdigest() == source.evidence_sha256
    kept = fleet.folder / "blobs" / str(source.evidence_blob)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(page)
    gate.close(step)
    job = await Reports(library.app).retake(id, source.id, by="ana")
    await until(gate.waiting, what=f"a worker is about to save {step}")
    worker.send(signal.SIGKILL, executors=True, supervisor=False)
    gate.open()
    await until(lambda: oracle.rows(ENDED, job), what="the picture is there")

    (found,) = [each for each in await library.sources(id) if each.id == source.id]
    assert found.screenshot_file_id == f"pictures/{source.evidence_sha256}"
    assert bill(fleet)[f"picture {source.evidence_sha256}"] == times
    assert oracle.rows(TWICE, job) == []
    oracle.nothing_is_wrong()

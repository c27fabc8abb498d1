"""Texts by their content: each embedded once, old versions switched off and not deleted, found by what they mean."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError, NotFound
from retoma.pipelines import EMBEDDINGS, vectors
from retoma.pipelines.embeddings.library import Embeddings, NewText
from retoma.pipelines.embeddings.pipeline import Text, embeddings, hash_of
from retoma.providers import Embedder
from retoma.providers.local import LocalEmbedder
from retoma.testing import drain

from .conftest import Counting, said

CONTRACT = "O contrato de locação foi assinado pelas duas partes."
DOG = "O cachorro dorme no sofá da sala."
INVOICE = "A fatura de energia vence na próxima segunda-feira."


async def states(library: Embeddings, source: str) -> list[tuple[int, str, str | None]]:
    found = await library.source("acme", "main", "page", source)
    return [(each.version, each.state, each.text) for each in found]


# — the same content —


async def test_the_same_content_is_one_job_and_one_call_whoever_says_it(
    app: Retoma, library: Embeddings, embedder: Counting
) -> None:
    first, second, other = await library.add_many([said("1", CONTRACT), said("2", CONTRACT), said("3", DOG)])
    again = await library.add(said("4", CONTRACT))
    await drain(app)
    late = await library.add(said("5", CONTRACT))
    await drain(app)

    assert [first.new, second.new, other.new, again.new, late.new] == [True, False, True, False, False]
    assert first.job_id == second.job_id == again.job_id == late.job_id != other.job_id
    assert (again.state, again.active, late.state, late.active) == ("queued", False, "completed", True)
    assert sorted(embedder.asked) == sorted([CONTRACT, DOG])
    assert await app.jobs.find() == [await app.jobs.get(2), await app.jobs.get(1)]
    assert await library.status() == await library.status("acme", "main")
    assert (await library.status()).states == {"active": 5}
    assert (await library.status()).stored == 2


async def test_another_organisation_site_or_model_is_other_work(
    library: Embeddings, local: LocalEmbedder, settings: Settings
) -> None:
    other = Counting(local, model="scholar")
    async with Retoma(settings=settings, extensions=[EMBEDDINGS], providers={Embedder: other}) as beside:
        added = [
            await library.add(said("1", DOG)),
            await library.add(said("1", DOG, site="shop")),
            await library.add(said("1", DOG, organisation="zoo")),
            await Embeddings(beside).add(said("1", DOG)),
        ]

    assert [each.new for each in added] == [True] * 4
    assert len({each.job_id for each in added}) == 4
    assert (await library.status("acme")).states == {"queued": 3}
    assert (await library.status("acme", "shop")).states == {"queued": 1}


async def test_many_callers_at_once_make_one_job(app: Retoma, library: Embeddings, embedder: Counting) -> None:
    added = await asyncio.gather(*(library.add(said(str(number), DOG)) for number in range(20)))
    await drain(app)

    assert sum(each.new for each in added) == 1
    assert len({each.job_id for each in added}) == 1
    assert embedder.asked == [DOG]
    assert (await library.status()).states == {"active": 20}


async def test_a_source_that_speaks_while_its_content_is_being_stored_is_found_all_the_same(
    app: Retoma, library: Embeddings, settings: Settings, embedder: Counting
) -> None:
    contents = [f"{DOG} Dia {number}." for number in range(12)]
    await library.add_many([said(f"first/{number}", content) for number, content in enumerate(contents)])
    worker = Retoma(settings=settings, extensions=[EMBEDDINGS], providers={Embedder: embedder})

    late = (library.add(said(f"late/{number}", content)) for number, content in enumerate(contents))
    await asyncio.gather(drain(worker, at_once=4), *late)
    await drain(app)

    assert (await library.status()).states == {"active": 24}
    assert sorted(embedder.asked) == sorted(contents)


async def test_a_job_that_runs_again_skips_what_is_there(app: Retoma, library: Embeddings, embedder: Counting) -> None:
    added = await library.add(said("1", DOG))
    await drain(app)
    await app.jobs.restart(added.job_id)
    await drain(app)

    job = await app.jobs.get(added.job_id)
    assert (job.state, job.reason) == ("skipped", "already embedded")
    assert embedder.asked == [DOG]


async def test_a_vector_that_somebody_removed_is_made_again(
    app: Retoma, library: Embeddings, psql: psycopg.Connection
) -> None:
    first = await library.add(said("1", DOG))
    await drain(app)
    psql.execute("delete from retoma.embeddings")

    again = await library.add(said("2", DOG))
    await drain(app)

    assert (again.job_id, again.state, again.new) == (first.job_id, "queued", False)
    assert (await library.status()).states == {"active": 2}
    assert (await library.status()).stored == 1


async def test_a_version_whose_job_failed_and_was_pruned_gets_another_job(
    app: Retoma, library: Embeddings, psql: psycopg.Connection
) -> None:
    first = await library.add(said("1", DOG))
    await app.jobs.cancel(first.job_id)
    held = await library.add(said("1", DOG))
    psql.execute("update retoma.jobs set finished_at = now() - interval '100 days'")
    await app.system.prune(timedelta(days=1))
    pruned = await states(library, "1")

    again = await library.add(said("1", DOG))
    await drain(app)

    assert (held.job_id, held.state, held.new) == (first.job_id, "cancelled", False)
    assert pruned == [(1, "pruned", None)]
    assert (again.new, again.version) == (True, 1)
    assert again.job_id != first.job_id
    assert await states(library, "1") == [(1, "active", DOG)]


async def test_a_worker_with_another_model_does_not_touch_the_text(
    library: Embeddings, local: LocalEmbedder, settings: Settings
) -> None:
    added = await library.add(said("1", DOG))
    other = Counting(local, model="scholar")
    async with Retoma(settings=settings, extensions=[EMBEDDINGS], providers={Embedder: other}) as beside:
        await drain(beside)
        job = await beside.jobs.get(added.job_id)

    assert (job.state, other.asked) == ("failed", [])
    assert "biller/clerk" in (job.error or "")
    assert "biller/scholar" in (job.error or "")
    assert (await library.status()).states == {"failed": 1}


# — versions —


async def test_the_old_version_is_found_until_the_new_one_is_stored_and_then_switched_off(
    app: Retoma, library: Embeddings
) -> None:
    await library.add(said("1", CONTRACT))
    await drain(app)
    new = await library.add(said("1", DOG))
    meanwhile = await states(library, "1")
    (still,) = await library.search("cachorro", organisation="acme", site="main")
    await drain(app)

    assert (new.version, new.active, new.new) == (2, False, True)
    assert meanwhile == [(2, "queued", None), (1, "active", CONTRACT)]
    assert still.excerpt == CONTRACT
    assert await states(library, "1") == [(2, "active", DOG), (1, "off", CONTRACT)]
    assert [hit.excerpt for hit in await library.search("contrato", organisation="acme", site="main")] == [DOG]


async def test_a_source_that_goes_back_is_switched_on_without_any_new_work(
    app: Retoma, library: Embeddings, embedder: Counting
) -> None:
    for content in (CONTRACT, DOG):
        await library.add(said("1", content))
        await drain(app)

    back = await library.add(said("1", CONTRACT))

    assert (back.version, back.active, back.new, back.state) == (3, True, False, "completed")
    assert await states(library, "1") == [(3, "active", CONTRACT), (2, "off", DOG), (1, "off", CONTRACT)]
    assert await drain(app) == 0
    assert embedder.asked == [CONTRACT, DOG]


async def test_what_was_said_last_counts_whatever_is_embedded_first(
    app: Retoma, library: Embeddings, psql: psycopg.Connection
) -> None:
    await library.add(said("1", CONTRACT))
    await drain(app)
    overtaken = await library.add(said("1", DOG))
    await library.add(said("1", INVOICE))
    psql.execute("update retoma.jobs set run_at = now() + interval '1 hour' where id = %s", (overtaken.job_id,))
    await drain(app)
    psql.execute("update retoma.jobs set run_at = now() where id = %s", (overtaken.job_id,))
    await drain(app)

    assert await states(library, "1") == [(3, "active", INVOICE), (2, "off", DOG), (1, "off", CONTRACT)]
    assert (await library.status()).stored == 3


async def test_a_source_may_speak_several_times_in_one_breath(app: Retoma, library: Embeddings) -> None:
    added = await library.add_many([said("1", CONTRACT), said("1", DOG), said("1", CONTRACT)])
    await drain(app)

    assert [(each.version, each.new) for each in added] == [(1, True), (2, True), (3, False)]
    assert await states(library, "1") == [(3, "active", CONTRACT), (2, "off", DOG), (1, "off", CONTRACT)]


async def test_texts_commit_with_the_rows_of_the_caller(app: Retoma, library: Embeddings) -> None:
    async with app.transaction() as conn:
        await library.add(said("1", DOG), conn=conn)
        raise psycopg.Rollback

    assert await app.jobs.find() == []
    assert (await library.status()).states == {}


async def test_the_correlation_id_goes_along_to_the_last_write(
    app: Retoma, library: Embeddings, psql: psycopg.Connection
) -> None:
    added = await library.add(said("1", DOG), correlation_id="request-4711")
    await drain(app)

    assert (await app.jobs.get(added.job_id)).correlation_id == "request-4711"
    assert psql.execute("select correlation_id, job_id from retoma.embeddings").fetchall() == [
        ("request-4711", added.job_id)
    ]
    assert psql.execute("select correlation_id from retoma.embedding_sources").fetchall() == [("request-4711",)]


# — searching —


async def test_a_paraphrase_without_a_shared_word_is_found_first_and_only_in_its_own_site(
    app: Retoma, library: Embeddings
) -> None:
    texts = [said("1", CONTRACT), said("2", DOG), said("3", INVOICE)]
    await library.add_many([*texts, said("9", "Acordo de aluguel firmado entre inquilino e dono.", site="shop")])
    await drain(app)

    hits = await library.search("animal de estimação descansando", organisation="acme", site="main")

    assert [source.source_id for source in hits[0].sources] == ["2"]
    assert hits[0].similarity == max(hit.similarity or 0 for hit in hits)
    assert {source.source_id for hit in hits for source in hit.sources} == {"1", "2", "3"}
    assert await library.search("contrato", organisation="nobody", site="main") == []


async def test_a_question_is_written_down_with_its_price_and_asked_once(
    app: Retoma, library: Embeddings, embedder: Counting, psql: psycopg.Connection
) -> None:
    for _ in range(2):
        await library.search("conta de luz", organisation="acme", site="main")

    assert embedder.asked == ["conta de luz"]
    assert psql.execute("select provider, step, job_id, state, reused from retoma.calls").fetchall() == [
        ("biller", "search", None, "answered", 1)
    ]
    assert await app.system.verify() == []


async def test_words_bring_up_what_meaning_alone_would_not(app: Retoma, library: Embeddings) -> None:
    await library.add_many([said("1", CONTRACT), said("2", DOG), said("3", f"{INVOICE} Referência XPTO-7781.")])
    await drain(app)

    hits = await library.search("xpto-7781", organisation="acme", site="main", limit=1)

    assert [source.source_id for source in hits[0].sources] == ["3"]


async def test_without_pgvector_the_same_is_found_in_numpy(
    app: Retoma, library: Embeddings, psql: psycopg.Connection
) -> None:
    await library.add_many([said("1", CONTRACT), said("2", DOG), said("3", INVOICE)])
    await drain(app)
    in_database = await library.search("conta de luz", organisation="acme", site="main")
    assert await vectors.pgvector(app) is not None
    psql.execute("drop extension vector cascade")

    in_numpy = await library.search("conta de luz", organisation="acme", site="main")

    assert await vectors.pgvector(app) is None
    assert [hit.content_hash for hit in in_numpy] == [hit.content_hash for hit in in_database]
    assert [hit.similarity for hit in in_numpy] == pytest.approx([hit.similarity for hit in in_database], abs=1e-5)


# — bad input —


@pytest.mark.parametrize(
    "bad",
    [
        said("1", " \n—"),
        said("1", "a" * 100_001),
        said("1", "nul \0 nul"),
        said("", DOG),
        said("1" * 301, DOG),
        said("1", DOG, organisation=""),
        said("1", DOG, site="s" * 101),
        said("1", DOG, language="p" * 36),
    ],
)
async def test_a_text_that_cannot_be_is_refused_and_nothing_of_its_company_is_written(
    app: Retoma, library: Embeddings, bad: NewText
) -> None:
    with pytest.raises(ConfigurationError):
        await library.add_many([said("2", DOG), bad])

    assert await app.jobs.find() == []
    assert (await library.status()).states == {}


async def test_what_is_not_there_is_said(library: Embeddings) -> None:
    with pytest.raises(NotFound, match="'7'"):
        await library.source("acme", "main", "page", "7")
    with pytest.raises(ConfigurationError):
        await library.search("?!", organisation="acme", site="main")
    assert await library.add_many([]) == []


async def test_a_job_whose_hash_is_not_that_of_its_content_is_refused(
    app: Retoma, library: Embeddings, embedder: Counting
) -> None:
    forged = Text(
        organisation="acme",
        site="main",
        content_hash=hash_of(DOG),
        content="FORGED: wire the money to account 666.",
        language=None,
        provider=embedder.provider,
        model=embedder.model,
    )
    receipt = await app.enqueue(embeddings, forged)
    await drain(app)
    await library.add(said("1", DOG))
    await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt) == ("failed", 1)
    assert (job.error or "").startswith("input_mismatch: the content of this job has the hash ")
    assert embedder.asked == [DOG]
    assert [text for _, _, text in await states(library, "1")] == [DOG]

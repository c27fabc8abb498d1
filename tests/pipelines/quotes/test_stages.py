"""The seed's own words: columns, indexes, stages, and what a screen says at each."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.pipeline import process_quote_request
from retoma.pipelines.quotes.stages import STEPS, STUCK_MINUTES, ProcessingCheckpoint, QuoteStatus, extracting

COLUMNS = {
    "processing_checkpoint": "character varying(50)",
    "last_heartbeat": "timestamp with time zone",
    "worker_id": "character varying(100)",
    "resume_data": "json",
    "started_at": "timestamp with time zone",
    "completed_at": "timestamp with time zone",
    "progress_percentage": "smallint",
    "attempt_number": "integer",
    "claude_payload_json": "json",
    "google_shopping_response_json": "json",
}
INDEXES = {
    "ix_quote_requests_heartbeat_status": "(status, last_heartbeat)",
    "ix_quote_requests_worker_id": "(worker_id)",
}


def test_a_quote_has_the_columns_of_the_seed(psql: psycopg.Connection) -> None:
    found = dict(
        psql.execute(
            "select attname, format_type(atttypid, atttypmod) from pg_attribute"
            " where attrelid = 'quotes.quote_requests'::regclass and attnum > 0"
        ).fetchall()
    )

    assert {name: found.get(name) for name in COLUMNS} == COLUMNS


@pytest.mark.parametrize("name", INDEXES)
def test_a_quote_has_the_indexes_of_the_seed(psql: psycopg.Connection, name: str) -> None:
    row = psql.execute("select indexdef from pg_indexes where schemaname = 'quotes' and indexname = %s", [name])

    assert str(row.fetchone()[0]).endswith(INDEXES[name])  # type: ignore[index]


def test_the_stages_are_those_of_the_seed_in_its_order() -> None:
    assert [str(each) for each in ProcessingCheckpoint] == [
        "INIT", "AI_ANALYSIS_START", "AI_ANALYSIS_DONE", "FIPE_SEARCH", "SHOPPING_SEARCH_START",
        "SHOPPING_SEARCH_DONE", "PRICE_EXTRACTION_START", "PRICE_EXTRACTION_PROGRESS", "PRICE_EXTRACTION_DONE",
        "FINALIZATION", "COMPLETED",
    ]  # fmt: skip
    assert {"PROCESSING", "DONE", "ERROR"} < {str(each) for each in QuoteStatus}


def test_each_step_has_its_percentage() -> None:
    assert STEPS == {
        "initializing": 5, "analyzing_text": 10, "analyzing_image": 10, "analysis_complete": 30,
        "preparing_search": 40, "checking_price_bank": 45, "searching_fipe": 50, "searching_products": 50,
        "using_cached_price": 60, "extracting_prices": 60, "processing_fipe_result": 70, "calculating_stats": 80,
        "finalizing": 95, "completed": 100, "awaiting_review": 100,
    }  # fmt: skip


@pytest.mark.parametrize(("tested", "products", "percent"), [(0, 10, 60), (5, 10, 70), (10, 10, 79), (3, 0, 79)])
def test_reading_prices_fills_the_way_to_the_next_stage(tested: int, products: int, percent: int) -> None:
    assert extracting(tested, products) == percent


def test_an_attempt_ends_before_its_quote_would_be_called_stuck() -> None:
    assert process_quote_request.timeout < STUCK_MINUTES * 60


@pytest.mark.parametrize(
    "wrong",
    [
        "status = 'PROCESSING'",  # without a sign of life nobody would find it
        "worker_id = 'ana'",  # nobody holds what is not in processing
        "status = 'DONE'",  # without its end
        "progress_percentage = 101",
        "status = 'LOST'",
    ],
)
def test_the_table_refuses_a_row_that_would_be_lost(psql: psycopg.Connection, wrong: str) -> None:
    psql.execute("insert into quotes.projects (name) values ('P')")
    psql.execute("insert into quotes.configurations (project_id, version, terms, created_by) values (1, 1, '{}', 'a')")
    psql.execute(
        "insert into quotes.quote_requests (job_id, project_id, config_version_id, input_text, created_by)"
        " values (1, 1, 1, 'Mesa', 'ana')"
    )

    with pytest.raises(psycopg.errors.CheckViolation):
        psql.execute(f"update quotes.quote_requests set {wrong}")


def test_it_is_an_extension_with_a_schema_of_its_own() -> None:
    branch = QUOTES.branch()

    assert branch is not None
    assert (branch.schema, branch.head) == ("quotes", "0005")

"""Every metric: its name, kind, labels, buckets and sentence. `docs/operate/observe.md` lists the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
WORK_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200)
CALL_BUCKETS = tuple(0.01 * 2**power for power in range(15))
TOKEN_BUCKETS = tuple(4**power for power in range(14))


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. *most* is the number of label sets that a process keeps; further ones share the value *other*."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    source: Literal["process", "database"] = "process"
    buckets: tuple[float, ...] = ()
    most: int = 200


METRICS = (
    Metric("retoma_events_total", "counter", ("event",), "Events of the engine, by title."),
    Metric("retoma_jobs_enqueued_total", "counter", ("queue", "pipeline"), "Jobs that were queued."),
    Metric("retoma_jobs_claimed_total", "counter", ("queue",), "Jobs that executors claimed."),
    Metric(
        "retoma_jobs_finished_total", "counter", ("queue", "pipeline", "outcome"),
        "Attempts that decided something: completed, failed, retried, skipped, review or cancelled.",
    ),
    Metric(
        "retoma_jobs_recovered_total", "counter", ("queue", "reason"),
        "Jobs recovered from an executor or worker: worker_gone, lease_expired or watchdog.",
    ),
    Metric("retoma_lease_lost_total", "counter", ("queue",), "Results dropped because another worker held the job."),
    Metric(
        "retoma_job_wait_seconds", "histogram", ("queue",), "Time from when a job was due to its claim.",
        buckets=WAIT_BUCKETS,
    ),
    Metric(
        "retoma_job_duration_seconds", "histogram", ("pipeline", "outcome"), "Time that an attempt took.",
        buckets=WORK_BUCKETS,
    ),
    Metric(
        "retoma_step_duration_seconds", "histogram", ("pipeline", "step", "outcome"), "Time that a step took.",
        buckets=WORK_BUCKETS,
    ),
    Metric(
        "retoma_steps_replayed_total", "counter", ("pipeline", "step"),
        "Steps restored from a checkpoint instead of being done again.",
    ),
    Metric(
        "retoma_checkpoints_invalid_total", "counter", ("pipeline", "reason"),
        "Checkpoints set aside because they were damaged or no longer fit.",
    ),
    Metric(
        "retoma_queue_depth", "gauge", ("queue", "state"), "Jobs that are ready, scheduled, held or running.",
        "database",
    ),
    Metric("retoma_queue_oldest_age_seconds", "gauge", ("queue",), "Age of the oldest ready job.", "database"),
    Metric("retoma_stuck_jobs", "gauge", ("queue",), "Running jobs for which no worker sends heartbeats.", "database"),
    Metric("retoma_stuck_executions", "gauge", ("pipeline",), "Batches that are stalled.", "database"),
    Metric(
        "retoma_jobs_at_checkpoint", "gauge", ("pipeline", "step"),
        "Unfinished jobs by the last step that they saved, as far as one bounded look sees them.", "database",
    ),
    Metric("retoma_dead_letter_jobs", "gauge", ("queue",), "Jobs that have failed for good.", "database"),
    Metric("retoma_execution_items", "gauge", ("pipeline", "state"), "Jobs of open batches, by state.", "database"),
    Metric("retoma_worker_slots", "gauge", ("state",), "Places for handlers, busy or free."),
    Metric(
        "retoma_worker_last_heartbeat_timestamp_seconds", "gauge", (),
        "When a heartbeat of this worker last reached the database.",
    ),
    Metric("retoma_workers", "gauge", ("queue", "state"), "Executors that are live or silent.", "database"),
    Metric("retoma_watchdog_last_run_timestamp_seconds", "gauge", (), "When this process last did a watchdog's duty."),
    Metric("retoma_watchdog_runs_total", "counter", ("result",), "Duties of the watchdog, done or failed."),
    Metric(
        "gen_ai_client_operation_duration_seconds", "histogram",
        ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "error_type"),
        "Time that a request to a provider took.", buckets=CALL_BUCKETS,
    ),
    Metric(
        "gen_ai_client_token_usage", "histogram",
        ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_token_type"),
        "Tokens of a request, input or output.", buckets=TOKEN_BUCKETS,
    ),
    Metric(
        "retoma_llm_cost_usd_total", "counter", ("provider", "model", "pipeline", "kind"),
        "Money paid to providers: useful, retried or lost.",
    ),
    Metric(
        "retoma_llm_retries_total", "counter", ("provider", "reason"),
        "Requests that have to be made again: 429, timeout, 5xx, refused or invalid_output.",
    ),
    Metric(
        "retoma_rate_limit_wait_seconds", "histogram", ("limiter",), "Time that a request waited for its limit.",
        buckets=WAIT_BUCKETS,
    ),
    Metric("retoma_breaker_state", "gauge", ("target",), "0 is closed, 1 half open, 2 open.", "database"),
    Metric("retoma_sse_clients", "gauge", (), "Clients that follow a stream of this process."),
    Metric("retoma_sse_resets_total", "counter", (), "Times that a client was told to look again."),
    Metric(
        "retoma_event_log_lag_seconds", "gauge", (),
        "How long the events of followed batches have waited to be told.",
    ),
    Metric("retoma_db_pool_connections", "gauge", ("state",), "Connections of the pools, busy or free."),
    Metric(
        "retoma_db_pool_wait_seconds", "histogram", ("state",), "Time until a pool gave a connection, or refused.",
        buckets=(0.001, 0.005, *WAIT_BUCKETS[:9]),
    ),
    Metric("retoma_webhook_deliveries_total", "counter", ("outcome",), "Webhooks that were delivered or not."),
    Metric("retoma_build_info", "gauge", ("version", "python", "schema"), "1, and what is installed."),
)  # fmt: skip

BY_NAME = {each.name: each for each in METRICS}

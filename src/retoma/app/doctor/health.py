"""What the figures of a database mean, as the doctor says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from retoma.app.doctor.findings import Finding, amber, green, red
from retoma.values.phrase import Phrase, joined

if TYPE_CHECKING:
    from retoma.model.health import Health
    from retoma.system.settings import Settings

_LONG_TRANSACTION = 5 * 60
_VERY_LONG_TRANSACTION = 60 * 60
_OLD_SNAPSHOT = 1_000_000
_MANY_DEAD = 10_000
_SLOW_ECHO = 0.5
_LATE = 5 * 60


def judge(health: Health, settings: Settings) -> Iterator[Finding]:
    """What the figures of a database mean."""
    if health.standby:
        yield red(
            "version",
            Phrase("PostgreSQL {version}, a read-only standby", version=health.version),
            "point DATABASE_URL at the primary.",
        )
    else:
        yield green("version", Phrase("PostgreSQL {version}", version=health.version))
    yield _durable(health)
    yield _connections(health)
    yield _hints(health, settings)
    yield _transactions(health)
    yield _dead_rows(health)
    yield from _work(health)


def _durable(health: Health) -> Finding:
    off = [name for name in ("fsync", "full_page_writes") if not getattr(health, name)]
    if off:
        return red(
            "durability",
            Phrase("{names} off: a crash may corrupt the database", names=joined(off, Phrase(" and "))),
            "switch it on.",
        )
    if health.synchronous_commit == "off":
        return red(
            "durability",
            "synchronous_commit is off: a crash of the server may lose jobs and checkpoints that were acknowledged",
            "alter database … set synchronous_commit = on;",
        )
    return green(
        "durability",
        Phrase("fsync on, synchronous_commit {level}", level=health.synchronous_commit),
    )


def _connections(health: Health) -> Finding:
    seen = Phrase("{used} of {most} in use", used=health.connections, most=health.most_connections)
    if health.connections > 0.9 * health.most_connections:
        return amber("connections", seen, "raise max_connections, or put PgBouncer in front.")
    return green("connections", seen)


def _hints(health: Health, settings: Settings) -> Finding:
    poll = settings.poll_seconds
    if settings.pooler == "transaction":
        return green("hints", Phrase("none through a transaction pooler; workers look every {poll:g} s", poll=poll))
    if health.echo_seconds is None:
        return amber(
            "hints",
            Phrase("LISTEN/NOTIFY does not arrive; workers look every {poll:g} s instead", poll=poll),
            "if a pooler in transaction mode stands in between, set RETOMA_POOLER=transaction.",
        )
    seen = Phrase("LISTEN/NOTIFY came back in {ms:.1f} ms", ms=health.echo_seconds * 1000)
    if health.echo_seconds > _SLOW_ECHO:
        return amber("hints", seen, "look at the load of the server, and at the network.")
    return green("hints", seen)


def _transactions(health: Health) -> Finding:
    seconds = health.transaction_seconds or 0.0
    pid, name = health.transaction_pid, health.transaction_name or Phrase("no name")
    who = Phrase("process {pid} ({name})", pid=pid, name=name)
    end = Phrase("find out what it does; select pg_terminate_backend({pid}) ends it.", pid=pid)
    if seconds > _VERY_LONG_TRANSACTION:
        return red(
            "transactions",
            Phrase(
                "one is open for {hours:.1f} h: {who}; nothing it saw can be cleaned", hours=seconds / 3600, who=who
            ),
            end,
        )
    if seconds > _LONG_TRANSACTION:
        return amber(
            "transactions", Phrase("one is open for {minutes:.0f} min: {who}", minutes=seconds / 60, who=who), end
        )
    if health.snapshot_age > _OLD_SNAPSHOT:
        return amber(
            "transactions",
            Phrase(
                "the oldest snapshot is {age:,} transactions old; dead rows pile up behind it",
                age=health.snapshot_age,
            ),
            "look in pg_replication_slots, pg_prepared_xacts and pg_stat_activity for who holds it.",
        )
    return green(
        "transactions",
        Phrase(
            "the oldest is {seconds:.0f} s old, its snapshot {age:,} behind",
            seconds=seconds,
            age=health.snapshot_age,
        ),
    )


def _dead_rows(health: Health) -> Finding:
    seen = Phrase("{live:,} live and {dead:,} dead", live=health.live_rows, dead=health.dead_rows)
    if not health.autovacuum:
        return red("rows of jobs", Phrase("{seen}; autovacuum is off", seen=seen), "switch autovacuum on.")
    if health.dead_rows > _MANY_DEAD and health.dead_rows > health.live_rows:
        return amber("rows of jobs", seen, "vacuum retoma.jobs; and look for what holds an old snapshot.")
    return green("rows of jobs", seen)


def _work(health: Health) -> Iterator[Finding]:
    late = health.oldest_due_seconds or 0.0
    waits = Phrase("; the oldest job that could run waits for {late:.0f} s", late=late) if late else ""
    seen = Phrase("executors alive: {alive}{waits}", alive=health.workers_alive, waits=waits)
    if health.workers_alive == 0:
        yield amber("workers", Phrase("nobody works{waits}", waits=waits), "retoma worker --app myapp:app")
    elif late > _LATE:
        yield amber("workers", seen, "start more workers, or see 'retoma queue list' for what nobody serves.")
    else:
        yield green("workers", seen)
    if health.workers_silent:
        yield amber(
            "silence",
            Phrase("{silent} fell silent", silent=health.workers_silent),
            "any worker recovers their jobs within seconds.",
        )
    if health.queues_paused:
        yield amber(
            "queues",
            Phrase("{paused} paused", paused=health.queues_paused),
            "'retoma queue list' says why; 'retoma queue resume'.",
        )
    if health.failed_jobs:
        yield amber(
            "dead letters",
            Phrase("{failed:,} failed", failed=health.failed_jobs),
            "retoma job list --state failed",
        )

"""A quote as somebody else's task processes it: quote_task.py URL QUOTE LOG STAGE; it waits for its end after STAGE."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import sqlalchemy
from sqlalchemy.orm import Session

from retoma.hosts.checkpoints import CheckpointManager, ProcessingCheckpoint

STAGES = list(ProcessingCheckpoint)
TIMEOUT = timedelta(seconds=float(os.environ.get("HEARTBEAT_TIMEOUT", "600")))


def pay(log: Path, what: str) -> None:
    """What costs money, in one write to a file that only grows."""
    with log.open("ab", buffering=0) as file:
        file.write(f"{what}\n".encode())


def process_quote_request(url: str, quote: int, log: Path, saved: Callable[[str], None]) -> None:
    """The task of the seed, stage by stage; *saved* is called after each."""
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as db:
        manager = CheckpointManager(db, heartbeat_timeout=TIMEOUT, commit=True)
        done = -1
        if manager.can_resume(quote):
            done = STAGES.index(ProcessingCheckpoint(manager.get_resume_checkpoint(quote)))
        else:
            manager.start_processing(quote)

        def missing(stage: ProcessingCheckpoint) -> bool:
            return done < STAGES.index(stage)

        if missing(ProcessingCheckpoint.AI_ANALYSIS_DONE):
            pay(log, "ai")
            manager.save_checkpoint(quote, ProcessingCheckpoint.AI_ANALYSIS_DONE, progress_percentage=30)
            saved("ai")
        if missing(ProcessingCheckpoint.SHOPPING_SEARCH_DONE):
            pay(log, "shopping")
            manager.save_checkpoint(quote, ProcessingCheckpoint.SHOPPING_SEARCH_DONE, progress_percentage=50)
            saved("shopping")
        tested = manager.get_resume_data(quote).get("tested_products", [])
        for product in [f"product/{number}" for number in range(1, 6)]:
            if product in tested:
                continue
            manager.update_heartbeat(quote)
            pay(log, product)
            tested = [*tested, product]
            progress = ProcessingCheckpoint.PRICE_EXTRACTION_PROGRESS
            manager.save_checkpoint(quote, progress, 60, {"tested_products": tested})
            saved(product)
        if missing(ProcessingCheckpoint.FINALIZATION):
            pay(log, "final")
            manager.save_checkpoint(quote, ProcessingCheckpoint.FINALIZATION, progress_percentage=95)
            saved("final")
        manager.complete_processing(quote, "DONE")
    engine.dispose()


def main() -> None:
    url, quote, log, until = sys.argv[1:]

    def saved(stage: str) -> None:
        if stage == until:
            print(f"saved {stage}", flush=True)  # noqa: T201 - the test listens
            signal.pause()

    process_quote_request(url, int(quote), Path(log), saved)
    print("completed")  # noqa: T201 - the test listens


if __name__ == "__main__":
    main()

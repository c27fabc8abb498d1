"""A worker is killed while it delivers a webhook: the message arrives, with the same id."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fleet import Fleet, until

from retoma import Retoma

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))

from webhook_receiver import receiving

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


async def test_a_worker_killed_in_the_middle_of_a_delivery_leaves_a_message_that_arrives_with_the_same_id(
    fleet: Fleet, app: Retoma, psql: psycopg.Connection
) -> None:
    with receiving(holding=True) as receiver:
        psql.execute(
            "insert into retoma.webhook_endpoints (id, url, kinds, secret) values ('e', %s, '{batch.started}', %s)",
            [receiver.url, "whsec_c2VjcmV0"],
        )
        id = await app.webhooks.test("e")
        first = fleet.start("ana", webhook_private="on")
        await until(receiver.arrived.is_set, what="the message comes")

        first.send(signal.SIGKILL, executors=True)

        receiver.going_on.set()
        # The lease of the message is two minutes; time passes for it alone.
        psql.execute("update retoma.webhook_deliveries set next_at = now()")
        fleet.start("bruno", webhook_private="on")
        await until(lambda: delivered(psql), what="the message is delivered")
        assert len(receiver.ids) >= 2
        assert set(receiver.ids) == {id}


def delivered(psql: psycopg.Connection) -> Any:
    return psql.execute("select 1 from retoma.webhook_deliveries where state = 'delivered'").fetchone()

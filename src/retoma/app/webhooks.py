"""Webhooks: where messages about the work go, and the log of their delivery."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from retoma.commands import webhooks as rules
from retoma.commands.jobs import only
from retoma.errors import ConfigurationError, NotFound
from retoma.model import validation
from retoma.postgres.connections import CommandRunner
from retoma.providers import webhook_post
from retoma.store import webhooks
from retoma.store.query import Query
from retoma.store.webhooks import Attempt, Delivery, Endpoint
from retoma.worker.webhook_jobs import sent, tell

__all__ = ["Attempt", "Delivery", "Endpoint", "Webhooks"]

_GRACE = timedelta(hours=24)
_LONGEST_URL = 2000
_LONGEST_DESCRIPTION = 200
STATES = ("pending", "delivered", "failed")


class Webhooks(CommandRunner):
    """The webhooks of an app. Messages are written with the change that they tell of; a worker delivers them."""

    async def add(
        self, url: str, *, kinds: Iterable[str] | None = None, description: str = "", conn: object = None
    ) -> tuple[str, Endpoint]:
        """Send messages to *url* from now on. Returns the secret that signs them, and the endpoint. *kinds* are all
        but job.failed unless given. An address inside is refused unless RETOMA_WEBHOOK_PRIVATE is on.
        """
        webhook_post.require()
        wanted = list(dict.fromkeys(rules.USUAL if kinds is None else kinds))
        if not wanted or set(wanted) - rules.KINDS.keys():
            wrong = ", ".join(sorted(set(wanted) - rules.KINDS.keys()))
            raise ConfigurationError(
                f"There is no kind of message {wrong}." if wrong else "An endpoint without a kind would get nothing.",
                next=f"Kinds are {', '.join(rules.KINDS)}.",
            )
        if len(url) > _LONGEST_URL or not re.fullmatch(r"[\x21-\x7e]+", url):
            raise ConfigurationError("This is not an address that messages can go to.", next="Give an https address.")
        await webhook_post.checked(url, private=self._database().settings.webhook_private == "on")
        secret = webhook_post.new_secret()
        about = " ".join(description.split())[:_LONGEST_DESCRIPTION]
        made = webhooks.add(f"ep_{secrets.token_hex(6)}", url, description=about, kinds=wanted, secret=secret)
        return secret, (await self._ask(only(made), conn))[0]

    async def all(self) -> list[Endpoint]:
        """Every endpoint, the oldest first."""
        return await self._ask(only(webhooks.all()))

    async def get(self, id: str, *, conn: object = None) -> Endpoint:
        """One endpoint."""
        found = await self._ask(only(webhooks.all(id)), conn)
        if not found:
            raise _unknown(id)
        return found[0]

    async def rotate(self, id: str, *, grace: timedelta = _GRACE, conn: object = None) -> str:
        """Give an endpoint another secret, and return it. Messages carry a signature of each until *grace* is over."""
        secret = webhook_post.new_secret()
        seconds = min(max(grace.total_seconds(), 0.0), validation.CENTURY)
        await self._done(id, webhooks.rotate(id, secret, grace=seconds), conn)
        return secret

    async def enable(self, id: str, *, conn: object = None) -> None:
        """Send messages to an endpoint again; what waited is due at once."""
        await self._done(id, webhooks.enable(id), conn)

    async def disable(self, id: str, *, conn: object = None) -> None:
        """Send nothing to an endpoint until it is enabled; nothing is written for it meanwhile."""
        await self._done(id, webhooks.disable(id, reason="asked"), conn)

    async def remove(self, id: str, *, conn: object = None) -> None:
        """Remove an endpoint and the log of its deliveries."""
        await self._done(id, webhooks.remove(id), conn)

    async def _done(self, id: str, query: Query[str], conn: object) -> None:
        if not await self._ask(only(query), conn):
            raise _unknown(id)

    # — deliveries —

    async def test(self, id: str, *, conn: object = None) -> str:
        """Write a message of the kind webhook.test to an endpoint, and return its id; a worker delivers it."""
        found = await self._ask(only(webhooks.test(id)), conn)
        if not found:
            raise _unknown(id)
        return found[0]

    async def deliver(self, id: str) -> Delivery:
        """Send a message that is due at once, from this process, and return how it stands then."""
        webhook_post.require()
        for message in await self._ask(only(webhooks.take(lease=rules.LEASE, id=id))):
            _, outcome = await sent(message, self._database().settings)
            tell(message, outcome, await self._ask(only(webhooks.settle(message, outcome))))
        return await self.delivery(id)

    async def delivery(self, id: str) -> Delivery:
        """One message, and how it stands."""
        found = await self._ask(only(webhooks.deliveries(id=id, limit=1)))
        if not found:
            raise NotFound(f"There is no message {id!r}.", next="'retoma webhook deliveries' shows them.")
        return found[0]

    async def deliveries(
        self,
        endpoint_id: str | None = None,
        *,
        state: str | None = None,
        before: tuple[datetime, str] | None = None,
        limit: int = 50,
    ) -> list[Delivery]:
        """Messages, newest first: those of one endpoint, or of all."""
        validation.page("messages", limit)
        if state is not None and state not in STATES:
            raise ConfigurationError(f"There is no state {state!r}.", next=f"States are {', '.join(STATES)}.")
        return await self._ask(
            only(webhooks.deliveries(endpoint_id=endpoint_id, state=state, before=before, limit=limit))
        )

    async def attempts(self, id: str) -> list[Attempt]:
        """Every request of a message, the first first."""
        return await self._ask(only(webhooks.attempts(id)))

    async def replay(self, id: str, *, conn: object = None) -> None:
        """Deliver a message again, whether it arrived or not; it keeps its id."""
        if not await self._ask(only(webhooks.replay(id)), conn):
            raise NotFound(f"There is no message {id!r}.", next="'retoma webhook deliveries' shows them.")


def _unknown(id: str) -> NotFound:
    return NotFound(f"There is no webhook {id!r}.", next="'retoma webhook list' shows them.")

"""Webhooks: where messages about the work go, and the log of their delivery; for those who may do everything."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.app.access.keys import ADMIN
from retoma.app.webhooks import Delivery, Endpoint
from retoma.web.api.access import in_one
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.webhooks import (
    DeliveryFilter,
    DeliveryLog,
    MadeSecret,
    MadeWebhook,
    NewWebhook,
    SecretRotation,
    Webhook,
    WebhookAttempt,
    WebhookDeliveries,
    WebhookDelivery,
    Webhooks,
    Written,
)
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import place_of, placed, point_to_next
from retoma.web.http.errors import Refusal
from retoma.web.http.route import ApiRoute

router = APIRouter(tags=["webhooks"], route_class=ApiRoute)

Id = Annotated[str, Path(min_length=1, max_length=100)]


@router.get("/webhooks")
@needs(ADMIN)
async def list_webhooks(visit: Here) -> Webhooks:
    """Every endpoint, the oldest first. With what waits for it; never its secret."""
    return Webhooks(webhooks=[Webhook.of(each) for each in await visit.app.webhooks.all()])


@router.post("/webhooks", status_code=201)
@needs(ADMIN, once=False, records=True)
async def add_webhook(order: NewWebhook, visit: Here, response: Response) -> MadeWebhook:
    """Send messages to an address. The secret that signs them is in this answer and nowhere else."""

    async def make(conn: Any) -> tuple[str, Endpoint]:
        return await visit.app.webhooks.add(order.url, kinds=order.kinds, description=order.description, conn=conn)

    secret, made = await in_one(visit, make, lambda both: both[1].id)
    response.headers["Cache-Control"] = "no-store"
    return MadeWebhook(id=made.id, secret=secret, webhook=Webhook.of(made))


@router.post("/webhooks/{id}/rotate")
@needs(ADMIN, once=False, records=True)
async def rotate_webhook(id: Id, visit: Here, response: Response, order: SecretRotation | None = None) -> MadeSecret:
    """Give an endpoint another secret. Messages carry a signature of each until the grace is over."""
    grace = timedelta(hours=(order or SecretRotation()).grace_hours)
    secret = await in_one(visit, lambda conn: visit.app.webhooks.rotate(id, grace=grace, conn=conn))
    response.headers["Cache-Control"] = "no-store"
    return MadeSecret(id=id, secret=secret)


@router.post("/webhooks/{id}/test", status_code=202)
@needs(ADMIN)
async def try_webhook(
    id: Id, visit: Here, request: Request, response: Response, _body: requests.Nothing | None = None
) -> Written:
    """Write a message that tells nothing but that it arrives. A worker delivers it."""
    made = await visit.app.webhooks.test(id, conn=visit.conn)
    response.headers["Location"] = f"{request.url.path.rsplit('/', 3)[0]}/deliveries/{made}"
    return Written(id=made)


@router.post("/webhooks/{id}/enable", status_code=204)
@needs(ADMIN)
async def enable_webhook(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Send messages to an endpoint again. What waited is due at once."""
    await visit.app.webhooks.enable(id, conn=visit.conn)


@router.post("/webhooks/{id}/disable", status_code=204)
@needs(ADMIN)
async def disable_webhook(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Send nothing to an endpoint until it is enabled. Nothing is written for it meanwhile."""
    await visit.app.webhooks.disable(id, conn=visit.conn)


@router.delete("/webhooks/{id}", status_code=204)
@needs(ADMIN)
async def remove_webhook(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Remove an endpoint and the log of its deliveries."""
    await visit.app.webhooks.remove(id, conn=visit.conn)


@router.get("/webhooks/{id}/deliveries")
@needs(ADMIN)
async def list_deliveries(
    id: Id, wanted: Annotated[DeliveryFilter, Query()], visit: Here, request: Request, response: Response
) -> WebhookDeliveries:
    """The messages of an endpoint, the newest first."""
    await visit.app.webhooks.get(id)
    before = None if wanted.cursor is None else _before(wanted.cursor)
    found = await visit.app.webhooks.deliveries(id, state=wanted.state, before=before, limit=wanted.limit + 1)
    page = found[: wanted.limit]
    following = cursor_of(page[-1]) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return WebhookDeliveries(deliveries=[WebhookDelivery.of(each) for each in page], next=following)


def cursor_of(delivery: Delivery) -> str:
    """The cursor of the page that begins behind *delivery*."""
    return place_of(delivery.created_at.isoformat(), delivery.id)


def _before(cursor: str) -> tuple[datetime, str]:
    at, id = placed(cursor, str, str)
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise Refusal("invalid_cursor") from None
    if moment.tzinfo is None:
        raise Refusal("invalid_cursor")
    return moment, id


@router.get("/deliveries/{id}")
@needs(ADMIN)
async def get_delivery(id: Id, visit: Here) -> DeliveryLog:
    """A message, and every request of it."""
    found, log = await visit.app.webhooks.delivery(id), await visit.app.webhooks.attempts(id)
    shown = WebhookDelivery.of(found).model_dump()
    return DeliveryLog(**shown, log=[WebhookAttempt.of(each) for each in log])


@router.post("/deliveries/{id}/replay", status_code=204)
@needs(ADMIN)
async def replay_delivery(id: Id, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Deliver a message again, whether it arrived or not. It keeps its webhook-id."""
    await visit.app.webhooks.replay(id, conn=visit.conn)

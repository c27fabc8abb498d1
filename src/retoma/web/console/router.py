"""Every page of the console."""

from __future__ import annotations

from fastapi import APIRouter

from retoma.web.console import (
    access,
    alerts,
    audit,
    batch,
    batch_actions,
    batches,
    calls,
    costs,
    dead_letters,
    errors,
    job,
    limits,
    new,
    operations,
    overview,
    pilot,
    queues,
    replan,
    review,
    schedules,
    search,
    system,
    views,
    webhooks,
    workers,
)
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/console", route_class=PageRoute, include_in_schema=False)
for each in (
    overview,
    batches,
    batch,
    batch_actions,
    replan,
    errors,
    dead_letters,
    operations,
    job,
    search,
    views,
    queues,
    workers,
    limits,
    schedules,
    calls,
    costs,
    system,
    audit,
    review,
    access,
    webhooks,
    new,
    pilot,
    alerts,
):
    router.include_router(each.router)

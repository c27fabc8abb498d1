"""What it costs to sum up chapters: by what words have cost so far, else by the price of the model."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from retoma.app.retoma import Retoma
from retoma.pipelines.books import sessions
from retoma.pipelines.books.ports import Editor


async def cost_of(app: Retoma, editor: Editor, configuration_hash: str, words: Sequence[int]) -> Decimal | None:
    """About what chapters with so many *words* cost, in dollars; None when nobody can know."""
    if not editor.bills or not words:
        return Decimal(0)
    ((cost, paid),) = await app.fetch(sessions.price(configuration_hash))
    if paid:
        return cost / paid * sum(words)
    expected = getattr(editor, "expected", None)  # an editor that somebody brings need not know
    if expected is None:
        return None
    tariff = await app.calls.tariff(editor.provider, editor.model)
    amounts = [tariff.cost(expected(each)).amount for each in words]
    known = [each for each in amounts if each is not None]
    return sum(known, Decimal(0)) if len(known) == len(amounts) else None

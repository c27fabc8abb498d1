"""The options of an enqueue are declared once; whoever passes them on knows the same names."""

from __future__ import annotations

from retoma.commands.options import Enqueueing
from retoma.web.api.schemas.requests import Order


def test_the_api_takes_the_options_that_the_front_door_takes() -> None:
    sent = {name.removesuffix("_seconds") for name in Order.model_fields} - {"pipeline", "input", "key"}

    # The correlation id of a request comes with its header.
    assert sent == set(Enqueueing.__annotations__) - {"correlation_id"}

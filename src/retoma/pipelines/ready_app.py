"""The app that serves every product that is installed."""

from __future__ import annotations

import os
from functools import cache

from retoma.app.extension import installed, unique
from retoma.app.retoma import Retoma
from retoma.pipelines import ALL
from retoma.pipelines.quotes.markets import market_from
from retoma.pipelines.quotes.ports import Market
from retoma.providers.factory import providers_from
from retoma.system.settings import Settings


@cache
def ready() -> Retoma:
    """The app of every product that is installed, with the providers that the settings choose."""
    settings = Settings.load()
    given = {**os.environ, "RETOMA_HOME": str(settings.home)}
    providers = providers_from(given)
    return Retoma(
        settings=settings,
        extensions=unique((*ALL, *installed())),
        providers={**providers, Market: market_from(given, providers)},
    )

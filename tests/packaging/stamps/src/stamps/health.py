"""What retoma doctor says of stamps."""

from __future__ import annotations

from retoma import Retoma
from retoma.cli.doctor import Finding, green
from retoma.cli.language import Phrase
from stamps import letters


async def check(app: Retoma) -> list[Finding]:
    return [green("stamps", Phrase("{number} letters", number=len(await app.fetch(letters.all_of_them()))))]

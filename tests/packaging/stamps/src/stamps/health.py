"""What retoma doctor says of stamps."""

from __future__ import annotations

from retoma import Retoma
from retoma.cli.doctor import Finding, green
from stamps import letters


async def check(app: Retoma) -> list[Finding]:
    return [green("stamps", f"{len(await app.fetch(letters.all_of_them()))} letters")]

"""What the doctor says of the sandbox: what shuts isolated functions in on this machine."""

from __future__ import annotations

from retoma.app.doctor.findings import Finding, amber, green, red
from retoma.errors import RetomaError
from retoma.isolate import adopt
from retoma.isolate.layers import REQUIRED, Layer
from retoma.isolate.probe import lacking
from retoma.system.settings import Settings
from retoma.values.phrase import Phrase, joined


async def sandbox(settings: Settings) -> Finding:
    """What shuts isolated functions in, as a child found that tried to get out."""
    if settings.sandbox == "off":
        return amber("sandbox", "switched off: isolated functions run as free as their worker", "RETOMA_SANDBOX=auto")
    adopt(settings)
    try:
        found = await lacking()
    except RetomaError as error:
        return red("sandbox", error.message, error.next)
    holds = joined(Phrase(layer) for layer in Layer if layer not in found)
    lacks = joined(Phrase("{layer} ({why})", layer=Phrase(layer), why=Phrase(why)) for layer, why in found.items())
    if set(found) & set(REQUIRED):
        judged = red if settings.sandbox == "require" else amber
        fix = Phrase(
            "a kernel with Landlock and seccomp, in a container that allows both; docs/guides/isolate.md has a table."
        )
        return judged(
            "sandbox",
            Phrase("missing: {found}; held: {holds}", found=lacks, holds=holds or Phrase("none")),
            fix,
        )
    if found:
        return green(
            "sandbox",
            Phrase("isolated functions are shut in: {holds}; not here: {found}", holds=holds, found=lacks),
        )
    return green("sandbox", Phrase("isolated functions are shut in: {holds}", holds=holds))

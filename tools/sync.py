"""Write the front door and the client without ``await`` from those with it: tools/sync.py [--check].

The namespaces of ``retoma.app`` and ``retoma.client`` hold no async code but ``await`` and ``async for``: everything
that differs is in the two runners, and in the transport. So their twins in ``retoma.sync`` and ``retoma.client.sync``
are made by a few replacements, formatted, and checked in.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMESPACES = ("batches", "calls", "jobs", "queues", "reviews", "schedules", "system", "workers")
CLIENT = ("batches", "calls", "jobs", "queues", "reviews", "schedules", "system", "workers", "async_transport")
SOURCES = {
    **{ROOT / f"src/retoma/app/{name}.py": ROOT / f"src/retoma/sync/{name}.py" for name in NAMESPACES},
    **{ROOT / f"src/retoma/client/{name}.py": ROOT / f"src/retoma/client/sync/{name}.py" for name in CLIENT},
}
"""Each source, and the twin that is made of it."""
_WORDS = (
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bretoma\.app\.runner\b", "retoma.sync.runner"),
    (r"\bretoma\.client\.async_transport\b", "retoma.client.sync.async_transport"),
    (r"\basyncio\b", "time"),
    (r"\bAsyncClient\b", "Client"),
    (r"\ba(close|read|iter_lines)\(", r"\1("),
    (r"Sends requests with ``await``\..+", 'Sends requests without ``await``."""'),
)


def made_of(origin: Path, target: Path) -> str:
    """The twin of the namespace in *origin*."""
    source = origin.read_text(encoding="utf-8")
    for pattern, replacement in _WORDS:
        source = re.sub(pattern, replacement, source)
    source = re.sub(r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n", source)
    head, _, rest = source.partition("\n")
    source = f"{head}\n\n# Made by tools/sync.py from {origin.parent.name}/{origin.name}; change that one.\n{rest}"
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        ruff = [
            str(Path(sys.executable).parent / "ruff"),
            *command,
            "--stdin-filename",
            str(target.relative_to(ROOT)),
            "-",
        ]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return source


def stale() -> dict[Path, str]:
    """The files that are not as they should be, with what should be in them."""
    found = {}
    for origin, target in SOURCES.items():
        wanted = made_of(origin, target)
        if not target.exists() or target.read_text(encoding="utf-8") != wanted:
            found[target] = wanted
    return found


def main() -> None:
    """Write what is stale, or with --check only say so."""
    for target, wanted in stale().items():
        if "--check" in sys.argv:
            sys.exit(f"{target.relative_to(ROOT)} is not made from its source. Try: make sync")
        target.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()

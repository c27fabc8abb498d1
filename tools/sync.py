"""Write the front door without ``await`` from the one with it: tools/sync.py [--check].

The namespaces of ``retoma.app`` hold no async code but ``await`` and ``async for``: everything that differs is in the
two runners. So their twins in ``retoma.sync`` are made by a few replacements, formatted, and checked in.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMESPACES = ("batches", "calls", "jobs", "queues", "schedules", "system", "workers")
_WORDS = (
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bretoma\.app\.runner\b", "retoma.sync.runner"),
)


def made_of(source: str, name: str) -> str:
    """The twin of a namespace."""
    for pattern, replacement in _WORDS:
        source = re.sub(pattern, replacement, source)
    source = re.sub(r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n", source)
    head, _, rest = source.partition("\n")
    source = f"{head}\n\n# Made by tools/sync.py from app/{name}.py; change that one.\n{rest}"
    for command in (["check", "--fix", "--quiet", "--select", "I"], ["format", "--quiet"]):
        ruff = [
            str(Path(sys.executable).parent / "ruff"),
            *command,
            "--stdin-filename",
            f"src/retoma/sync/{name}.py",
            "-",
        ]
        source = subprocess.run(ruff, input=source, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return source


def stale() -> dict[Path, str]:
    """The files that are not as they should be, with what should be in them."""
    found = {}
    for name in NAMESPACES:
        source = (ROOT / "src/retoma/app" / f"{name}.py").read_text(encoding="utf-8")
        target = ROOT / "src/retoma/sync" / f"{name}.py"
        wanted = made_of(source, name)
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

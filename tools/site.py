"""What the site of docs/ needs beyond Markdown; mkdocs.yml names this file as a hook."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]

_BESIDE = ("SECURITY.md", "benchmarks/RESULTS.md")
"""Pages that are kept outside of docs/ and linked from there."""

_FENCE = re.compile(r"^(\s*```\w+) (?:run|program)$", re.MULTILINE)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that are kept elsewhere."""
    for name in _BESIDE:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A code block is opened without the word for our tests, and the root of the repository is that of the site."""
    return _FENCE.sub(r"\1", markdown).replace("](../../", "](../")

"""The pages: every local link leads somewhere, every Python block compiles, and the first ones run.

A block opened as ```` ```python run ```` is run: each as a program of its own, in the order of the page,
in one empty folder per page, with DATABASE_URL set to a fresh database. A block whose first line is a comment
that names a file (``# myapp.py``) is also saved there, so that the blocks below can import it. ``await`` may
stand at the top level. In README.md and docs/start every Python block must be of this kind.
"""

import ast
import os
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import programs
import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")])
FIRST_PAGES = [page for page in PAGES if page == ROOT / "README.md" or ROOT / "docs/start" in page.parents]

FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?^[ \t]*\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)

# Runs the file that it is given, with await allowed at the top level.
RUNNER = """
import ast, asyncio, inspect, sys
sys.path.insert(0, "")
text = open(sys.argv[1], encoding="utf-8").read()
code = compile(text, sys.argv[1], "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
space = {"__name__": "__main__", "__file__": sys.argv[1]}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, space))
else:
    exec(code, space)
"""


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    info: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The name under which the block wants to be saved."""
        named = re.match(r"# ([a-z_]+\.py)\s*$", self.text.partition("\n")[0])
        return named[1] if named else None


def blocks(page: Path) -> Iterator[Block]:
    opened: tuple[str, int, tuple[str, ...]] | None = None
    inside: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = re.match(r"\s*(`{3,}|~{3,})\s*(.*)$", line)
        if opened is None and fence:
            opened, inside = (fence[1], number, tuple(fence[2].split())), []
        elif opened and fence and fence[1].startswith(opened[0]) and not fence[2]:
            yield Block(page, opened[1], opened[2], textwrap.dedent("\n".join(inside)) + "\n")
            opened = None
        elif opened:
            inside.append(line)
    assert opened is None, f"{page.relative_to(ROOT)}:{opened[1]} opens a block and does not close it"


def prose(page: Path) -> str:
    """The page without its blocks and inline code, where a bracket is not a link."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


@cache
def anchors(page: Path) -> set[str]:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#{1,6}\s+(.*?)\s*$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


PYTHON = [block for page in PAGES for block in blocks(page) if block.info[:1] == ("python",)]
TO_RUN = {page: [block for block in PYTHON if block.page == page and "run" in block.info] for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_local_link_leads_somewhere(page: Path) -> None:
    lost = []
    for target in re.findall(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            lost.append(target)

    assert not lost


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_every_python_block_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_readme_has_python_to_run() -> None:
    assert TO_RUN[ROOT / "README.md"], "README.md shows no program; its first example should be a `python run` block"


@pytest.mark.parametrize("page", FIRST_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_on_the_first_pages_every_python_block_is_one_that_runs(page: Path) -> None:
    assert [str(block) for block in PYTHON if block.page == page and "run" not in block.info] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if TO_RUN[page]], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path, database_url: str) -> None:
    env = {**os.environ, "DATABASE_URL": database_url, "RETOMA_HOME": str(tmp_path / ".retoma")}
    env.pop("RETOMA_TOKEN", None)  # pages are for those who have set nothing
    for number, block in enumerate(TO_RUN[page]):
        program = tmp_path / (block.file or f"block_{number}.py")
        program.write_text(block.text, encoding="utf-8")
        ran = programs.run(["-c", RUNNER, str(program)], folder=tmp_path, environment=env, timeout=240)

        assert ran.returncode == 0, f"{block}\n{ran.stdout}{ran.stderr}"

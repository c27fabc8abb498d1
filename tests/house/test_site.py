"""The pages of docs/ become a site, in both languages, without a warning and without anything from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "--quiet", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    made = [site / page.with_name("index.html" if page.stem == "README" else f"{page.stem}.html") for page in pages]

    assert len(pages) > 50
    assert [str(page) for page in made if not page.exists()] == []


def test_portuguese_can_be_reached_from_every_english_page_and_back(site: Path) -> None:
    english, portuguese = (site / name for name in ("guides/define.html", "pt/inicio.html"))

    assert 'href="../pt/inicio.html"' in english.read_text(encoding="utf-8")
    assert 'href="../guides/define.html"' in portuguese.read_text(encoding="utf-8")


def test_nothing_is_loaded_from_another_machine(site: Path) -> None:
    loaded = [
        f"{page.relative_to(site)}: {tag}"
        for page in site.rglob("*.html")
        for tag in re.findall(r"<(?:script|img|iframe|link)\b[^>]*>", page.read_text(encoding="utf-8"))
        if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)
    ]

    assert loaded == []


def test_a_code_block_for_the_tests_is_a_code_block_on_the_site(site: Path) -> None:
    page = (site / "guides/define.html").read_text(encoding="utf-8")

    assert 'class="highlight"' in page
    assert "```" not in page

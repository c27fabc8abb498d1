"""What is in the repository names no machine and no place to get packages from."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Written so that this file does not find itself.
PLACES = re.compile(r"(?<![\w.~})\]*:-])/(?:root|work|home|tmp|Users)(?=/|\b(?![\w-]))")
HOSTS = re.compile(r"pypi\.|python[h]osted|npmjs\.|index-url\s*=|file:/{3}")


IGNORED = {".git", ".venv", ".retoma", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
IGNORED |= {".import_linter_cache", "__pycache__", "build", "dist"}


def tracked() -> list[Path]:
    """Every text file that is, or would be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:  # an unpacked archive, or a checkout that belongs to someone else
        files = [path for path in ROOT.rglob("*") if not IGNORED & set(path.relative_to(ROOT).parts)]
    else:
        files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [file for file in files if file.is_file() and b"\0" not in file.read_bytes()[:8192]]


def found(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{number} {line.strip()[:100]}"
        for file in tracked()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_the_patterns_know_a_place_and_a_host() -> None:
    assert all(PLACES.search("in /" + place) for place in ("root", "work/main", "tmp/x", "home/someone"))
    assert not [text for text in ("/workers", "/api/work", "tmp_path/root", "http://host/tmp") if PLACES.search(text)]
    assert HOSTS.search("https://files.python" + "hosted.org")


def test_no_machine_is_named() -> None:
    places = found(PLACES)

    assert not places, "\n".join(places)


def test_no_package_registry_is_named() -> None:
    hosts = found(HOSTS)

    assert not hosts, "\n".join(hosts)

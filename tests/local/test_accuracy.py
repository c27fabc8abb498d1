"""The figures are measured, and the command prints what was measured."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from retoma.bench.evaluation import accuracy
from retoma.bench.evaluation.cli import accuracy as command
from retoma.errors import ConfigurationError
from retoma.providers import local

pytestmark = pytest.mark.timeout(600)


async def test_every_kind_is_read_whole_and_no_broken_file_is_read_in_part() -> None:
    figures = await accuracy.extraction()

    assert {kind: told["words_right"] for kind, told in figures["kinds"].items()} == dict.fromkeys(
        figures["kinds"], 1.0
    )
    assert sum(figures["damaged_pdfs"].values()) == 30
    assert "read in part" not in figures["damaged_pdfs"]
    assert figures["damaged_pdfs"]["read"] > 0


async def test_ocr_is_wrong_in_less_than_one_character_of_a_hundred() -> None:
    figures = await accuracy.ocr()
    if "skipped" in figures:
        pytest.skip(figures["skipped"])

    assert figures["clean"]["character_errors"] < 0.01
    assert figures["rough"]["character_errors"] < 0.01


async def test_translations_find_each_other_and_summaries_pass_their_audit() -> None:
    assert (await accuracy.embedding())["translations_found"] == 1
    told = await accuracy.summaries()
    assert told["audits_passed"] == told["chapters"] == 4


@pytest.mark.parametrize(
    ("expected", "found", "errors"),
    [
        ("abc", "abc", 0),
        ("abcd", "abxd", 0.25),
        ("ab", "", 1),
        ("a b", "a\nb", 0),
        ("abc", "xabcx", 2 / 3),
        ("ação", "acao", 0.5),
    ],
)
def test_character_errors_are_edits(expected: str, found: str, errors: float) -> None:
    assert accuracy.character_errors(expected, found) == pytest.approx(errors)


def test_words_are_right_as_often_as_they_stand_there() -> None:
    assert accuracy.words_right("um dois um", "um um dois") == 1
    assert accuracy.words_right("um dois um", "um dois") == pytest.approx(2 / 3)


def test_the_command_prints_figures_for_people_and_as_json() -> None:
    told = CliRunner().invoke(command, ["summaries"])
    as_json = CliRunner().invoke(command, ["summaries", "--json"])

    assert told.exit_code == 0
    assert "summaries.audits_passed\t4" in told.output
    assert json.loads(as_json.output)["summaries"]["chapters"] == 4


def test_the_command_knows_its_figures() -> None:
    told = CliRunner().invoke(command, ["nothing"])

    assert told.exit_code == 2
    assert "There is no figure 'nothing'; there are documents" in told.output


# — loaded when used —


def test_importing_the_package_loads_no_library_and_no_model() -> None:
    program = (
        "import sys, retoma.providers.local; print([m for m in ('numpy', 'lxml', 'pypdfium2') if m in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


def test_the_extractor_loads_no_parser_into_its_own_process() -> None:
    program = (
        "import sys\nfrom retoma.providers.local import LocalExtractor\nLocalExtractor()\n"
        "print([m for m in ('lxml', 'pypdfium2', 'pikepdf', 'openpyxl', 'rapidocr', 'numpy') if m in sys.modules])"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "[]"


def test_a_missing_library_is_named_with_what_to_install() -> None:
    program = (
        "import sys\nsys.modules['simplemma'] = None\n"
        "from retoma.providers import local\ntry:\n    local.LocalClassifier\n"
        f"except Exception as error:\n    print(type(error).__name__ == {ConfigurationError.__name__!r}, error)"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert (
        ran.stdout.strip()
        == "True simplemma is not installed, and LocalClassifier needs it. pip install 'retoma[local]'"
    )


def test_a_name_that_is_not_there_is_no_name_of_the_package() -> None:
    assert sorted(local.__all__) == local.__all__
    with pytest.raises(AttributeError, match="Nothing"):
        local.Nothing  # noqa: B018

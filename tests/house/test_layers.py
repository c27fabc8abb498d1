"""Who may know whom: the import contracts of pyproject.toml hold, and would notice if they did not."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_everyone_looks_down_never_up() -> None:
    checked = lint_imports(ROOT / "src")

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_stray_import_upstairs_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    with (tmp_path / "src/retoma/errors.py").open("a") as ground_floor:
        ground_floor.write("\nimport retoma.app.retoma\n")

    checked = lint_imports(tmp_path / "src")

    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "retoma.errors is not allowed to import retoma.app" in " ".join(checked.stdout.split())


def test_a_module_without_a_floor_is_noticed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    (tmp_path / "src/retoma/somewhere.py").write_text('"""A room that nobody planned."""\n')

    checked = lint_imports(tmp_path / "src")

    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "retoma.somewhere" in checked.stdout


def test_the_house_can_be_read_from_its_folders() -> None:
    entries = [each.name for each in (ROOT / "src/retoma").iterdir() if each.name != "__pycache__"]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")

    assert len(entries) <= 27
    assert len(layers) <= 16

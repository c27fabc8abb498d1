"""What is checked before a commit is what make check checks, with the tools that are locked."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_hooks_are_the_static_checks_of_make_and_download_nothing() -> None:
    written = (ROOT / "Makefile").read_text(encoding="utf-8")
    checks = written.partition("\ncheck-static:")[2].partition("\n\n")[0]
    made = set(re.findall(r"\$\(BIN\)/([\w-]+(?: \w[\w/.]*)?)", checks))

    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    hooks = [hook for each in repositories for hook in each["hooks"]]

    assert [each["repo"] for each in repositories] == ["local"]
    assert {hook["language"] for hook in hooks} == {"system"}
    assert {re.sub(r"^\.venv/bin/| --[\w-]+", "", hook["entry"]) for hook in hooks} == made

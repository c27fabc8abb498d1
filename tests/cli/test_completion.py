"""Completion in a shell: Click's own, for every command there is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def completed(shell: str, words: str) -> str:
    """What the command offers for the last of *words*, as the script of the shell asks for it."""
    environment = {**os.environ, "_RETOMA_COMPLETE": f"{shell}_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split(" ")) - 1)
    program = "from retoma.cli import main; main(prog_name='retoma')"
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=100
    ).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_given_a_script(shell: str) -> None:
    environment = {**os.environ, "_RETOMA_COMPLETE": f"{shell}_source"}
    program = "from retoma.cli import main; main(prog_name='retoma')"

    given = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=100
    ).stdout

    assert "_RETOMA_COMPLETE" in given


def test_commands_their_words_and_their_options_are_offered() -> None:
    assert "plain,batch" in completed("bash", "retoma ba").splitlines()
    assert "plain,retry-failed" in completed("bash", "retoma batch re").splitlines()
    assert "plain,--pilot" in completed("bash", "retoma batch new --pi").splitlines()


def test_after_a_server_is_named_commands_are_offered_still() -> None:
    assert "plain,batch" in completed("bash", "retoma --api http://x ba").splitlines()

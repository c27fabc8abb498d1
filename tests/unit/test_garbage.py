"""The garbage collector rests while a program is loaded, and works afterwards."""

import gc
import subprocess
import sys

import pytest

from retoma.system.garbage import loading


def test_nothing_is_collected_while_a_program_is_loaded() -> None:
    with loading():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_a_program_that_fails_to_load_leaves_the_collector_on() -> None:
    with pytest.raises(ImportError), loading():
        raise ImportError("there is no such thing")

    assert gc.isenabled()


def test_loading_inside_of_loading_leaves_it_off_until_the_outer_one_ends() -> None:
    with loading():
        with loading():
            pass
        inside = gc.isenabled()

    assert not inside
    assert gc.isenabled()


def test_a_process_that_was_started_without_it_has_it_when_it_begins_to_work() -> None:
    program = (
        "import gc; gc.disable(); from retoma.system.garbage import settle_down; settle_down(); print(gc.isenabled())"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "True\n"

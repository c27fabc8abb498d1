"""Whatever happens in a child, only its own call fails, and the failure says why."""

import asyncio
import inspect
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retoma.errors import (
    ConfigurationError,
    IsolatedCrash,
    IsolatedFailure,
    IsolatedMemory,
    IsolatedTimeout,
    KeyTaken,
    Unstorable,
)
from retoma.isolate import Isolated, Policy, configure, isolated, shutdown
from retoma.isolate.launch import Folder
from retoma.isolate.policy import environment_of

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # children look for the functions where we do
import isolated_functions as functions  # noqa: E402

linux = pytest.mark.skipif(sys.platform != "linux", reason="macOS limits no memory and has no /proc")


@pytest.fixture(autouse=True, scope="module")
def two_children() -> Iterator[None]:
    configure(children=2)
    yield
    shutdown()
    configure(children=os.cpu_count() or 1)


def eventually(true: Callable[[], bool], seconds: float = 120) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def gone(pid: int) -> bool:
    """No such process, or only its entry until somebody asks how it ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" in status.read_text()
    except OSError:
        return not status.parent.parent.exists() or not status.exists()


# ------------------------------------------------------------------ what it looks like


def test_a_call_runs_elsewhere_and_brings_its_value_back() -> None:
    assert functions.double(4, plus=1) == 9
    assert functions.pid() != os.getpid()


async def test_the_engine_awaits_it_without_blocking_the_loop() -> None:
    assert await asyncio.gather(*(functions.double.run(number) for number in range(6))) == [0, 2, 4, 6, 8, 10]


def test_the_wrapper_keeps_what_the_function_says_of_itself() -> None:
    assert isinstance(functions.double, Isolated)
    assert functions.double.__name__ == "double"
    assert functions.double.__doc__ == "Twice the number."
    assert str(inspect.signature(functions.double)) == "(number: int, *, plus: int = 0) -> int"
    assert (functions.double.seconds, functions.double.megabytes) == (20, 256)
    assert functions.double.function(3) == 6
    assert pickle.loads(pickle.dumps(functions.double)) is functions.double


def test_a_decorator_below_is_kept_in_the_child() -> None:
    assert functions.greet("ana") == "HELLO ANA"


def test_inside_a_child_another_isolated_function_is_just_called() -> None:
    value, pid = functions.quadruple(5)

    assert value == 20
    assert pid != os.getpid()


def test_several_threads_and_loops_share_the_children() -> None:
    values: list[int] = []
    threads = [
        threading.Thread(target=lambda each=each: values.append(asyncio.run(functions.double.run(each))))
        for each in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(values) == [0, 2, 4, 6]


def test_a_child_outlives_the_thread_that_asked_first() -> None:
    shutdown()
    pids: list[int] = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: pids.append(functions.pid()))
        thread.start()
        thread.join()

    assert pids[0] == pids[1]


@pytest.mark.parametrize("kind", ["lambda", "nested", "method", "async", "object"])
def test_what_a_child_could_not_find_is_refused_at_once(kind: str) -> None:
    def nested() -> None: ...

    async def later() -> None: ...

    class Reader:
        def read(self) -> None: ...

    later.__qualname__ = "later"
    choices = {"lambda": lambda: 1, "nested": nested, "method": Reader.read, "async": later, "object": Reader}

    with pytest.raises(ConfigurationError, match="cannot be isolated"):
        isolated()(choices[kind])


def test_limits_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="allows nothing"):
        isolated(seconds=0)
    with pytest.raises(ConfigurationError, match="not a number of children"):
        configure(children=0)


def test_a_function_that_the_child_cannot_find_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"could not load isolated_functions\.vanished"):
        functions.lost()


def test_a_child_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutdown()
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no python today >&2\nexit 1\n")
    program.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(program))
        with pytest.raises(ConfigurationError, match="exit code 1, no python today"):
            functions.double(1)

        program.unlink()
        with pytest.raises(IsolatedFailure, match=r"No child process could be launched: .*No such file"):
            functions.double(1)

    assert functions.double(1) == 2


# ------------------------------------------------------------------ how it may end


@pytest.mark.parametrize(
    ("how", "number", "name"),
    [
        ("segfault", signal.SIGSEGV, "SIGSEGV"),
        ("abort", signal.SIGABRT, "SIGABRT"),
        ("kill", signal.SIGKILL, "SIGKILL"),
    ],
)
def test_death_by_signal_tells_which_and_the_last_words(how: str, number: int, name: str) -> None:
    with pytest.raises(IsolatedCrash, match=name) as caught:
        functions.die(how, words="about to go")

    assert caught.value.signal == number
    assert "isolated_functions.die" in str(caught.value)
    assert "about to go" in caught.value.stderr_tail
    assert functions.double(1) == 2


@linux
def test_a_crash_shows_where_in_python_it_was() -> None:
    with pytest.raises(IsolatedCrash) as caught:
        functions.die("segfault")

    assert "Segmentation fault" in caught.value.stderr_tail
    assert "isolated_functions.py" in caught.value.stderr_tail


@linux
def test_a_crash_tells_the_peak_of_memory() -> None:
    with pytest.raises(IsolatedCrash) as caught:
        functions.touch_and_crash(300)

    assert caught.value.peak_megabytes is not None
    assert 300 <= caught.value.peak_megabytes < 600


@pytest.mark.parametrize(("how", "code"), [("exit 7", 7), ("exit 0", 0), ("sys.exit", 3)])
def test_leaving_the_child_is_a_crash_with_its_exit_code(how: str, code: int) -> None:
    with pytest.raises(IsolatedCrash, match="exit") as caught:
        functions.die(how)

    assert caught.value.child_exit_code == code
    assert caught.value.signal is None


@pytest.mark.parametrize("function", [functions.hang, functions.spin])
def test_over_time_is_killed_whatever_it_ignores(function: Isolated[[], None]) -> None:
    with pytest.raises(IsolatedTimeout, match=r"still running after its 1 s"):
        function()


def test_too_much_processor_time_is_a_time_out() -> None:
    with pytest.raises(IsolatedTimeout):
        functions.die("cpu")


@linux
def test_three_gigabytes_do_not_fit_in_256_megabytes() -> None:
    with pytest.raises(IsolatedMemory, match="256 MB") as caught:
        functions.allocate(3_000)

    assert caught.value.peak_megabytes is not None
    assert functions.allocate(200) == 200 * 1_048_576


@linux
def test_memory_full_to_the_last_byte_can_still_be_told() -> None:
    with pytest.raises(IsolatedMemory, match="128 MB") as caught:
        functions.hoard()

    assert caught.value.peak_megabytes is not None
    assert caught.value.peak_megabytes > 64


@linux
def test_a_native_library_out_of_memory_is_told_from_a_crash() -> None:
    with pytest.raises(IsolatedMemory, match="SIGABRT"):
        functions.allocate_in_c(3_000)


@linux
def test_a_child_that_keeps_memory_is_replaced_before_it_fails_an_innocent_call() -> None:
    pids = {functions.leak(100) for _ in range(6)}

    assert len(pids) >= 3


def test_an_endless_recursion_is_an_ordinary_error() -> None:
    with pytest.raises(RecursionError):
        functions.recurse()


def test_an_ordinary_error_is_raised_as_itself_with_the_childs_traceback() -> None:
    with pytest.raises(ValueError, match="page 7 has no text") as caught:
        functions.refuse("plain")

    assert "isolated_functions.py" in caught.value.__notes__[0]
    assert 'raise ValueError("page 7 has no text")' in caught.value.__notes__[0]


def test_an_error_with_a_constructor_of_its_own_is_raised_as_itself_too() -> None:
    with pytest.raises(functions.Unhappy, match="tears on page 7") as caught:
        functions.refuse("demanding")
    assert caught.value.page == 7

    with pytest.raises(KeyTaken, match="the key is taken Use another") as taken:
        functions.refuse("ours")
    assert taken.value.job_id == 7


async def test_an_error_that_cannot_travel_is_described() -> None:
    with pytest.raises(IsolatedFailure, match="raised ValueError: holds a lock") as caught:
        functions.refuse("unsendable")
    assert "isolated_functions.py" in caught.value.__notes__[0]

    with pytest.raises(IsolatedFailure, match="raised StopIteration"):
        await functions.refuse.run("stop")


def test_no_child_speaks_for_the_database() -> None:
    with pytest.raises(IsolatedFailure, match=r"raised retoma\.errors\.DatabaseUnreachable"):
        functions.refuse("database")


def test_an_error_leaves_the_child_in_use() -> None:
    shutdown()
    before = functions.pid()
    with pytest.raises(ValueError, match="page 7"):
        functions.refuse("plain")

    assert functions.pid() == before


def test_big_values_go_and_come() -> None:
    assert len(functions.big(20_000_000)) == 20_000_000
    assert functions.length(b"x" * 20_000_000) == 20_000_000


def test_a_value_that_cannot_leave_the_child_says_so() -> None:
    with pytest.raises(Unstorable, match=r"returned a value that cannot leave its child: a _thread\.lock cannot"):
        functions.unsendable()


def test_a_value_that_json_would_change_needs_an_annotation_and_says_so() -> None:
    assert functions.unsaid("list") == [1, None, {"a": "b"}]
    for kind in ("tuple", "bytes"):
        with pytest.raises(Unstorable, match=f"cannot leave its child: the {kind} comes back from JSON as something"):
            functions.unsaid(kind)


def test_bytes_and_dates_inside_a_dataclass_come_back_as_they_were() -> None:
    picture = functions.picture(1_000)

    assert picture.pixels == bytes(range(256)) * 1_000
    assert picture.when == datetime(2026, 1, 2, tzinfo=UTC)
    assert picture.note == "\ufffd and \ufffd", "as a checkpoint would keep it"


def test_an_argument_that_cannot_be_sent_says_so() -> None:
    with pytest.raises(Unstorable, match="argument of double cannot be sent"):
        functions.double(threading.Lock())


def test_much_talk_does_not_fill_the_disk_or_the_evidence() -> None:
    functions.chatter(500)

    with pytest.raises(IsolatedCrash) as caught:
        functions.die("exit 7", words="my own words")
    assert "my own words" in caught.value.stderr_tail
    assert "nothing is wrong" not in caught.value.stderr_tail


# ------------------------------------------------------------------ the others are unharmed


async def test_one_bad_among_twenty_harms_no_other() -> None:
    endings = await asyncio.gather(
        *(functions.double_unless.run(number, bad=7) for number in range(20)), return_exceptions=True
    )

    assert isinstance(endings.pop(7), IsolatedCrash)
    assert endings == [number * 2 for number in range(20) if number != 7]


async def test_cancelling_the_wait_kills_the_child_and_what_it_started() -> None:
    call = functions.tell_and_hang.ask()
    waiting = asyncio.wrap_future(call.future)
    assert await asyncio.to_thread(eventually, lambda: call.note is not None)
    child, program = call.note

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await asyncio.to_thread(eventually, lambda: gone(child) and gone(program))
    assert await functions.double.run(3) == 6


async def test_a_call_cancelled_while_it_waits_never_begins() -> None:
    busy = [asyncio.ensure_future(functions.hang.run()) for _ in range(2)]
    await asyncio.sleep(0)
    call = functions.tell_and_hang.ask()
    waiting = asyncio.wrap_future(call.future)
    waiting.cancel()

    endings = await asyncio.gather(*busy, waiting, return_exceptions=True)

    assert [type(each) for each in endings] == [IsolatedTimeout, IsolatedTimeout, asyncio.CancelledError]
    assert await functions.double.run(3) == 6
    assert (call.began, call.note) == (None, None)


def test_a_child_killed_while_it_idles_costs_nobody_anything() -> None:
    shutdown()
    child = functions.pid()
    os.kill(child, signal.SIGKILL)

    assert functions.pid() != child


def test_a_sigterm_meant_for_the_service_does_not_end_a_call() -> None:
    assert functions.survive_sigterm() == "still here"


def test_shutdown_ends_calls_and_children_and_the_next_call_starts_anew() -> None:
    call = functions.tell_and_hang.ask()
    assert eventually(lambda: call.note is not None)

    shutdown()

    with pytest.raises(CancelledError):
        call.future.result()
    assert gone(call.note[0])
    assert functions.double(2) == 4


@pytest.mark.parametrize("how", ["segfault", "exit"])
def test_what_a_child_had_started_ends_with_it_however_it_died(how: str) -> None:
    call = functions.leave_behind.ask(how)
    with pytest.raises(IsolatedCrash):
        call.future.result()

    assert eventually(lambda: gone(call.note))


TELL = """
import time
import isolated_functions as functions
call = functions.{call}
while call.note is None:
    time.sleep(0.05)
print(call.note, flush=True)
call.future.result()
"""


def started(call: str) -> tuple[subprocess.Popen[str], Any]:
    """A process of its own that asks for *call*, and what the function noted."""
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-c", TELL.format(call=call)]
    asking = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert asking.stdout is not None
    return asking, json.loads(asking.stdout.readline())


def test_what_a_child_had_started_ends_when_the_process_around_it_is_killed() -> None:
    asking, left = started("leave_behind.ask('hang')")
    assert not gone(left)

    asking.kill()
    asking.communicate()

    assert eventually(lambda: gone(left))


@linux
def test_thirty_crashes_leak_no_descriptor() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    shutdown()
    before = open_files()

    async def crash() -> list[object]:
        return await asyncio.gather(*(functions.die.run("segfault") for _ in range(30)), return_exceptions=True)

    assert {type(each) for each in asyncio.run(crash())} == {IsolatedCrash}
    shutdown()
    assert eventually(lambda: open_files() <= before)


# ------------------------------------------------------------------ what a child may see


def test_a_child_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    shutdown()
    for name in ("DATABASE_URL", "PGPASSWORD", "RETOMA_HOME", "OPENAI_API_KEY", "HF_TOKEN", "MY_PASSWORD"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("BROKER", "amqp://ana:hush@host/")
    monkeypatch.setenv("LC_OF_TESTS", "pt")
    monkeypatch.setattr(sys, "argv", ["retoma", "--password", "hush"])

    environment, kernel, arguments, _ = functions.surroundings()

    assert environment["LC_OF_TESTS"] == "pt"
    assert "hush" not in str(environment)
    assert "hush" not in kernel
    assert "hush" not in str(arguments)


def test_a_child_is_told_the_variables_of_a_list_and_no_others() -> None:
    planted = [
        *("DB_PASS", "MYSQL_PWD", "GITHUB_PAT", "JWT", "SLACK_WEBHOOK_URL", "AZURE_STORAGE_SAS", "SENTRY_DSN", "FOO"),
        *("AWS_SECRET_ACCESS_KEY", "apikey", "SSH_AUTH_SOCK", "HTTPS_PROXY", "PYTHONSTARTUP", "LD_PRELOAD"),
    ]
    usual = ["PATH", "LANG", "LC_ALL", "TZ", "TESSDATA_PREFIX", "PYTHONPATH", "OMP_WAIT_POLICY"]

    kept = environment_of(dict.fromkeys(planted + usual, "value"), more=["FOO"], folder="/scratch")

    assert {name for name, value in kept.items() if value == "value"} == {*usual, "FOO"}
    assert kept["HOME"] == kept["TMPDIR"] == "/scratch"


@linux
def test_a_file_among_the_arguments_can_be_read_and_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear all")

    name, text, *endings = functions.read_and_change(file)
    assert (name, text) == ("letter.txt", "Dear all")
    assert set(endings) <= {"PermissionError", "OSError"}, "refused, or another disk to it"
    assert functions.read_and_change(file=file)[:2] == ["letter.txt", "Dear all"]
    assert (file.read_text(), file.stat().st_nlink, file.stat().st_mode & 0o777) == ("Dear all", 1, 0o644)


@linux
def test_a_file_that_is_gone_leaves_the_child_fit_for_the_next_one(tmp_path: Path) -> None:
    """It was there when the call was made, and was removed before a child was free; or the disk was full."""
    there = tmp_path / "there.txt"
    there.write_text("seen")
    folder = Folder(None)
    try:
        with pytest.raises(FileNotFoundError):
            folder.give([there, tmp_path / "gone.txt"])
        assert list((folder.path / "given").iterdir()) == []

        (name,) = folder.give([there])
        seen = (folder.path / "given" / name).read_text()
        folder.take_back()
        (again,) = folder.give([there])
    finally:
        folder.close()

    assert seen == "seen"
    assert again != name, "what could not be removed is in nobody's way"


@linux
def test_a_file_that_is_named_in_a_text_stays_shut_and_the_error_says_how_to_give_it(tmp_path: Path) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear all")

    with pytest.raises(PermissionError) as caught:
        functions.read_by_name(str(file))
    assert "pathlib.Path" in caught.value.__notes__[-1]

    shutdown()
    try:
        configure(policy=Policy(read=(str(tmp_path),)))
        assert functions.read_by_name(str(file)) == "Dear all"
    finally:
        shutdown()
        configure(policy=Policy())


@linux
def test_a_child_holds_no_descriptor_of_ours(tmp_path: Path) -> None:
    shutdown()
    with (tmp_path / "ours").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        *_, files = functions.surroundings()

    assert str(tmp_path / "ours") not in files
    assert not [each for each in files if each.startswith("socket:")]
    assert len([each for each in files if each.startswith("pipe:")]) <= 8


@linux
def test_a_child_has_its_limits() -> None:
    found = functions.limits()

    assert found["core"] == 0
    assert found["files"] == 256
    assert 20 < found["processor"] < 20 * (os.cpu_count() or 1) + 60
    assert 256 * 1_048_576 < found["memory"] < 2_000 * 1_048_576
    assert found["first to go"] == 800


# ------------------------------------------------------------------ scripts, and parents that die


def script(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(body))
    return path


def test_a_function_in_the_script_that_was_started_is_found(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os
        from dataclasses import dataclass
        from retoma.isolate import isolated

        @dataclass
        class Page:
            number: int

        @isolated(seconds=20)
        def turn(page: Page) -> tuple[Page, int]: return Page(page.number + 1), os.getpid()

        if __name__ == "__main__":
            page, pid = turn(Page(1))
            print(page.number, pid != os.getpid())
        """,
    )

    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("2 True\n", "")


def test_a_session_without_a_file_is_refused() -> None:
    body = "from retoma.isolate import isolated\n@isolated()\ndef f(): ...\n"

    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=False)

    assert "ConfigurationError: f cannot be isolated: it was typed into a session that has no file" in done.stderr


def test_when_the_parent_is_killed_the_child_dies_too() -> None:
    parent, (child, program) = started("tell_and_hang.ask()")
    assert not gone(child)

    parent.kill()
    parent.communicate()

    assert eventually(lambda: gone(child) and gone(program))


def test_a_process_that_ends_leaves_no_child_and_no_noise(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, {str(HERE)!r})
        import isolated_functions
        print(isolated_functions.pid())
        """,
    )

    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert eventually(lambda: gone(int(done.stdout)))


ONE_FILE = """
import asyncio
from retoma import Retoma, Run, isolated, pipeline
from retoma.testing import drain

class Market:
    pass

@isolated(seconds=20)
def read(text: str) -> int:
    return len(text)

@pipeline("sort")
async def sort(text: str, run: Run, *, market: Market) -> int:
    return await run.step("read", read, text)

# As providers_from() does, which finds no setting in a child.
import os
app = Retoma(pipelines=[sort], providers={Market: Market()} if "RETOMA_CHAT" in os.environ else {})

async def main() -> None:
    async with app:
        job = await app.enqueue(sort, "abc")
        await drain(app)
        print(await app.jobs.output(sort, job.id))

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_an_isolated_function_may_share_one_file_with_the_app_and_its_providers(
    tmp_path: Path, database_url: str
) -> None:
    program = tmp_path / "one_file.py"
    program.write_text(ONE_FILE)
    environment = {**os.environ, "DATABASE_URL": database_url, "RETOMA_CHAT": "openai"}

    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=False)

    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr

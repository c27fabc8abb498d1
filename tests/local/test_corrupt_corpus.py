"""Whatever a file is, reading it ends: in its words or in a clear error, in bounded memory, its sibling unharmed."""

import asyncio
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from retoma.bench.evaluation.accuracy import words_right
from retoma.isolate import Policy, configure, shutdown
from retoma.providers.local import DocumentUnreadable, LocalExtractor, detect, limits
from retoma.providers.local.errors import ParserCrashed, ParserMemory, ParserTimeout

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))  # children look for rude readers where we do
from bad_files import CORPUS, TEXT, Bad, whole_pdf

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True, scope="module")
def two_children() -> Iterator[None]:
    configure(children=2)
    yield
    shutdown()
    configure(children=os.cpu_count() or 1)


@pytest.fixture(autouse=True, scope="module")
def memory() -> Iterator[None]:
    """At the end: no child ever held more than a reader may, and the libraries it loads."""
    done = threading.Event()
    most = 0

    def watch() -> None:
        nonlocal most
        while not done.wait(0.05):
            for child in psutil.Process().children():
                try:
                    most = max(most, child.memory_info().rss)
                except psutil.Error:
                    continue

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield
    done.set()
    watcher.join()
    assert 0 < most < (limits.READ_MEGABYTES + 512) * 1_048_576


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(CORPUS) >= 30
    assert len({bad.name for bad in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("bad", CORPUS, ids=lambda bad: bad.name.replace(" ", "-"))
async def test_a_bad_file_ends_in_its_words_or_in_a_clear_error_and_its_sibling_is_unharmed(
    bad: Bad, tmp_path: Path
) -> None:
    bad_file, good_file = tmp_path / f"bad.{bad.kind}", tmp_path / "good.pdf"
    bad_file.write_bytes(bad.make())
    good_file.write_bytes(whole_pdf())
    extractor = LocalExtractor()

    ended, sibling = await asyncio.gather(
        extractor.extract(bad_file, kind=bad.kind, timeout=bad.seconds),
        extractor.extract(good_file, kind="pdf", timeout=60),
        return_exceptions=True,
    )

    assert not isinstance(sibling, BaseException)
    assert words_right(TEXT, sibling.text) == 1
    if isinstance(ended, DocumentUnreadable):
        assert ended.code in bad.ends, str(ended)
        assert ended.next
        assert bad_file.name in str(ended)
        assert str(tmp_path) not in str(ended)
    else:
        assert not isinstance(ended, BaseException), repr(ended)
        assert "read" in bad.ends, f"read as {ended.text[:200]!r}"
        assert words_right(TEXT, ended.text) > 0.9


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pdf")

    with pytest.raises(DocumentUnreadable) as refused:
        detect(tmp_path / "pipe.pdf")

    assert refused.value.code == "document_missing"


# — readers that die, hang and eat —


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "petição.pdf"
    file.write_bytes(whole_pdf())
    return file


async def test_a_second_crash_on_the_same_file_is_the_last_and_tells_signal_and_page(file: Path) -> None:
    extractor = LocalExtractor(readers={"pdf": ["rude_readers:dies_on_page_3"]})

    with pytest.raises(ParserCrashed) as crash:
        await extractor.extract(file, kind="pdf", timeout=30)

    assert (crash.value.signal, crash.value.page, crash.value.reader) == (11, 3, "rude")
    assert crash.value.message.count("rude on page 3 of petição.pdf died by signal 11.") == 2
    assert not crash.value.retryable


async def test_two_readers_that_crash_are_both_told(file: Path) -> None:
    extractor = LocalExtractor(readers={"pdf": ["rude_readers:dies_on_page_3", "rude_readers:aborts"]})

    with pytest.raises(ParserCrashed, match=r"page 3 .* signal 11\. Then ruder on page 7 .* signal 6\."):
        await extractor.extract(file, kind="pdf", timeout=30)


async def test_when_a_reader_crashes_the_next_one_is_asked_and_the_crash_is_recorded(file: Path) -> None:
    readers = ["rude_readers:dies_on_page_3", "retoma.providers.local.readers.pdf:read"]
    extractor = LocalExtractor(readers={"pdf": readers})

    reading = await extractor.extract(file, kind="pdf", timeout=30)

    assert reading.reader == "pypdfium2, after rude had crashed"
    assert words_right(TEXT, reading.text) == 1


async def test_one_crash_of_the_only_reader_may_have_been_the_machine(file: Path) -> None:
    extractor = LocalExtractor(readers={"pdf": ["rude_readers:dies_once"]})

    shutdown()
    configure(policy=Policy(sandbox="off"))  # its mark lies beside the document
    try:
        reading = await extractor.extract(file, kind="pdf", timeout=30)
    finally:
        shutdown()
        configure(policy=Policy())

    assert reading.text == "lido na segunda vez"
    assert reading.reader == "fickle, after fickle had crashed"


async def test_a_reader_that_hangs_is_killed_and_its_page_is_told(file: Path) -> None:
    extractor = LocalExtractor(readers={"pdf": ["rude_readers:hangs_on_page_5"]})

    with pytest.raises(ParserTimeout, match=r"slow on page 5 of petição\.pdf .* 1\.5 s") as late:
        await extractor.extract(file, kind="pdf", timeout=1.5)

    assert late.value.page == 5
    assert late.value.retryable


@pytest.mark.skipif(sys.platform != "linux", reason="macOS limits no memory")
async def test_a_reader_that_wants_too_much_memory_is_stopped(file: Path) -> None:
    extractor = LocalExtractor(readers={"pdf": ["rude_readers:eats"]})

    with pytest.raises(ParserMemory, match="hungry on page 2"):
        await extractor.extract(file, kind="pdf", timeout=30)


async def test_what_one_reader_used_of_the_time_the_next_one_lacks(file: Path) -> None:
    extractor = LocalExtractor(readers={"pdf": ["rude_readers:dies_on_page_3", "rude_readers:hangs_on_page_5"]})

    with pytest.raises(ParserTimeout, match=r"the 2 s of this document were over"):
        await extractor.extract(file, kind="pdf", timeout=2)

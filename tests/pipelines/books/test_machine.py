"""Save, corrupt, kill and resume in any order, against a model that knows only which chapters are whole."""

from __future__ import annotations

import copy
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sample_books import SESSION, body_of, ours

from retoma.pipelines.books import folder
from retoma.pipelines.books.compose import sealed
from retoma.pipelines.books.search import Search, search
from retoma.pipelines.books.verdicts import Expected

CHAPTERS = tuple(str(number) for number in range(1, 7))
SPOILED = {
    "cut": "not_json",
    "emptied": "file_empty",
    "flipped": "checksum_differs",
    "without a part": "component_missing",
    "of another session": "session_differs",
    "of another chapter": "name_differs",
    "out of time": "times_out_of_order",
    "null": "summary_incomplete",
}


class Resuming(RuleBasedStateMachine):
    """A run over six chapters that is killed wherever a file is written, and files that are spoiled in between."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="retoma-machine-"))
        self.minute = 1
        self.whole: dict[str, bytes] = {}
        self.spoiled: dict[str, str] = {}
        self.processed: list[str] = []

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    def look(self) -> Search:
        return search(folder.candidates(self.place, SESSION), chapters=CHAPTERS, expected=Expected(session_id=SESSION))

    def body(self, number: str) -> bytes:
        self.minute += 1
        done = tuple(each for each in CHAPTERS if each in self.whole and each != number)
        return body_of(ours(number, minute=self.minute % 60 or 1, done=done))

    @precondition(lambda self: len(self.whole) < len(CHAPTERS))
    @rule(chapters=st.integers(1, 3), dies=st.sampled_from([None, "before", "written", "renamed"]))
    def resume(self, chapters: int, dies: str | None) -> None:
        """Go on where the search says, and be killed at the last of so many chapters, or not."""
        for number in self.look().unprocessed[:chapters]:
            assert number not in self.whole, "a chapter that is whole would be processed again"
            self.processed.append(number)
            body = self.body(number)
            if dies is not None and number == self.look().unprocessed[:chapters][-1]:
                self._die(number, body, dies)
                return
            folder.write(self.place, folder.file_name(SESSION, number), body)
            self._keep(number, body)

    def _die(self, number: str, body: bytes, where: str) -> None:
        if where == "written":  # nobody tidies up after a kill
            (self.place / ".0123.part").write_bytes(body[: len(body) // 2])
        elif where == "renamed":
            folder.write(self.place, folder.file_name(SESSION, number), body)
            self._keep(number, body)

    def _keep(self, number: str, body: bytes) -> None:
        self.whole[number] = body
        self.spoiled.pop(number, None)

    @precondition(lambda self: bool(self.whole))
    @rule(how=st.sampled_from(sorted(SPOILED)), data=st.data())
    def spoil(self, how: str, data: st.DataObject) -> None:
        """Something happens to a file that was whole."""
        number = data.draw(st.sampled_from(sorted(self.whole)))
        path = self.place / folder.file_name(SESSION, number)
        path.write_bytes(self._spoiled(number, how, data))
        del self.whole[number]
        self.spoiled[number] = SPOILED[how]

    def _spoiled(self, number: str, how: str, data: st.DataObject) -> bytes:
        body, value = self.whole[number], copy.deepcopy(ours(number))
        match how:
            case "cut":
                return body[: data.draw(st.integers(1, len(body) - 1))]
            case "emptied":
                return b""
            case "flipped":
                value["chapter_summary"]["titulo"] += "?"
                return body_of(value)
            case "without a part":
                del value[data.draw(st.sampled_from(["chapter_summary", "coverage_report", "metadata"]))]
            case "of another session":
                value = ours(number, session="another")
            case "of another chapter":
                value = ours("99")
            case "out of time":
                value["metadata"]["timestamp_inicio"] = "2027-01-01T00:00:00"
            case _:
                value["chapter_summary"]["resumo"] = None
        return sealed(value)

    @precondition(lambda self: bool(self.whole))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """A file is gone: a gap."""
        number = data.draw(st.sampled_from(sorted(self.whole)))
        (self.place / folder.file_name(SESSION, number)).unlink()
        del self.whole[number]

    @invariant()
    def the_search_knows_what_the_model_knows(self) -> None:
        found = self.look()
        assert set(found.usable) == set(self.whole)
        assert found.unprocessed == tuple(number for number in CHAPTERS if number not in self.whole)
        reasons = {each.candidate.chapter_number: each.verdict.reason for each in found.invalid}
        assert reasons == self.spoiled
        if not self.whole and not self.spoiled:
            assert found.outcome == "no_checkpoint"
        elif not self.whole:
            assert found.outcome == "none_valid"
        else:
            assert found.outcome == ("resumable" if found.unprocessed else "complete")

    @invariant()
    def what_is_whole_is_never_touched(self) -> None:
        for number, body in self.whole.items():
            assert (self.place / folder.file_name(SESSION, number)).read_bytes() == body


TestResuming = Resuming.TestCase
TestResuming.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)

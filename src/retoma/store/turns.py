"""Fair turns between queues and lanes: what a claimer remembers from one claim to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from retoma.model.job import Claim


class Turns:
    """For each queue, the lane served last and how many turns it has had, divided by its weight.

    Of two queues with ready jobs, the one with fewer turns is next. A queue that was empty for a while does not get its
    missed turns back: it starts level with the others.
    """

    def __init__(self, after: Mapping[str, int] | None = None) -> None:
        self.cut = False
        """Whether the last claim found nothing, and did not visit every lane."""
        self._after = dict(after or {})
        self._turned: dict[str, float] = {}
        self._least = 0.0
        self._around: set[str] = set()
        self._lines: dict[tuple[object, ...], Claim] = {}

    def after_lane(self, queue: str) -> int:
        return self._after.get(queue, 0)

    def turned(self, queue: str) -> float:
        return max(self._turned.get(queue, 0.0), self._least)

    def begin(self) -> None:
        """Start a new scan; it may take several claims to go once around."""
        self._around.clear()

    @property
    def lines(self) -> list[Claim]:
        """The last claimed job of each line (lane, pipeline and priority) that can be followed."""
        return list(self._lines.values())

    def heard(self, rows: Sequence[Claim]) -> list[Claim]:
        """Record what the *rows* of a claim say about the next one, and return the jobs among them."""
        if not rows:
            self.cut = False
            return []
        for queue, lane in zip(rows[0].cut_queues or (), rows[0].cut_lanes or (), strict=True):
            if lane <= self.after_lane(queue):
                self._around.add(queue)
            self._after[queue] = lane
        if rows[0].id is None:
            self.cut = bool(set(rows[0].cut_queues or ()) - self._around)
            return []
        self.cut = False
        if len({(each.queue, each.lane_id) for each in rows}) == rows[0].lines:
            # The rows include every line that had ready jobs.
            self._lines.clear()
            self._leave_off(rows)
        self._turn(rows)
        return list(rows)

    def followed(self, rows: Sequence[Claim]) -> list[Claim]:
        """Record what the *rows* of a following claim say about the next one."""
        self._leave_off(rows)
        self._turn(rows)
        return list(rows)

    def _leave_off(self, rows: Sequence[Claim]) -> None:
        for each in rows:
            self._lines[each.queue, each.lane_id, each.pipeline, each.priority] = each

    def _turn(self, rows: Sequence[Claim]) -> None:
        least: float | None = None
        furthest: dict[str, int] = {}
        for each in rows:
            if each.turned is not None:
                before = self.turned(each.queue)
                least = before if least is None else min(least, before)
            if each.step is not None and each.step >= furthest.get(each.queue, 0):
                furthest[each.queue], self._after[each.queue] = each.step, each.lane_id
        for each in rows:
            if each.turned is not None:
                self._turned[each.queue] = max(each.turned, self._turned.get(each.queue, 0.0))
        self._least = max(self._least, least or 0.0)

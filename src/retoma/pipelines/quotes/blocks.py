"""Which product is tested next, and when there are enough: runs of neighbouring prices, the largest first.

Products stand in the order of their prices. A block is a run of neighbours whose spread from its cheapest is within the
limit. N good prices in one block end the search; a block that cannot reach N any more is dropped, and the blocks are
formed anew without what failed. When there is no block left, the limit grows. Nothing here asks anybody: the same
products and the same verdicts lead the same way, so a later attempt walks it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Product:
    """A price that may be tested. Of one block, those of a lower *rank* are tested first."""

    key: str
    price: Decimal
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Products that were tried together, and under which limit."""

    tolerance: int
    keys: tuple[str, ...]


@dataclass(slots=True)
class BlockSearch:
    """A search for *wanted* good prices that are at most *tolerance* percent apart; where there are none the limit
    grows by *widen*, up to *ceiling*.
    """

    products: Sequence[Product]
    wanted: int = 3
    tolerance: int = 25
    widen: int = 5
    ceiling: int = 100
    history: list[Block] = field(default_factory=list)
    """Every block that was begun, in order."""
    _valid: dict[str, Decimal] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)
    _block: tuple[str, ...] = ()
    _last: bool = False

    def __post_init__(self) -> None:
        self.products = sorted(self.products, key=_by_price)

    @property
    def valid(self) -> list[str]:
        """The good prices so far, the cheapest first."""
        return [each.key for each in self._standing() if each.key in self._valid]

    @property
    def enough(self) -> bool:
        """Whether there are as many good prices in one block as are wanted."""
        return bool(self._enough())

    @property
    def chosen(self) -> list[str]:
        """The good prices that agree: those of the block that ended the search, or as many as there are."""
        runs = self._runs([each for each in self._standing() if each.key in self._valid], least=1)
        return [each.key for each in runs[0]] if runs else []

    def next(self) -> str | None:
        """The product to test now; None when there are enough, or none that could help."""
        if self._enough():
            return None
        while True:
            if (key := self._untested()) is not None:
                return key
            if not self._begin_block():
                return None

    def good(self, key: str, price: Decimal | None = None) -> None:
        """The product is sold at its *price*, or at another that its page says."""
        (found,) = (each for each in self.products if each.key == key)
        self._valid[key] = found.price if price is None else price

    def bad(self, key: str) -> None:
        """The product does not count."""
        self._failed.add(key)

    def _standing(self) -> list[Product]:
        """What has not failed, by the prices that are known by now."""
        left = [each for each in self.products if each.key not in self._failed]
        return sorted((replace(each, price=self._valid.get(each.key, each.price)) for each in left), key=_by_price)

    def _enough(self) -> list[str]:
        """The largest run of good prices within the limit, if it is large enough."""
        chosen = self.chosen
        return chosen if len(chosen) >= self.wanted else []

    def _runs(self, products: list[Product], *, least: int) -> list[list[Product]]:
        """Every longest run within the limit of *least* products or more; the largest first, of equal ones the
        cheapest.
        """
        runs = []
        end = 0
        for start, cheapest in enumerate(products):
            most = cheapest.price * (100 + self.tolerance) / 100
            before = end
            while end < len(products) and products[end].price <= most:
                end += 1
            # A run that ends where the one before it ended is a part of that one.
            if end - start >= least and (end > before or start == 0):
                runs.append(products[start:end])
        return sorted(runs, key=len, reverse=True)

    def _untested(self) -> str | None:
        """What to test in the block at hand; None when it is done with, or cannot reach the number any more."""
        members = [each for each in self._standing() if each.key in self._block]
        if len(members) < self.wanted and not self._last:
            return None
        left = [each for each in members if each.key not in self._valid]
        return min(left, key=lambda each: (each.rank, *_by_price(each))).key if left else None

    def _begin_block(self) -> bool:
        while not self._last:
            standing = self._standing()
            if len(standing) < self.wanted:
                return self._begin_last(standing)
            for run in self._runs(standing, least=self.wanted):
                if any(each.key not in self._valid for each in run):
                    self._begin(run)
                    return True
            if self.tolerance + self.widen > self.ceiling:
                return self._begin_last(standing)
            self.tolerance += self.widen
            if self._enough():
                break
        return False

    def _begin_last(self, standing: list[Product]) -> bool:
        """There cannot be enough. Some good prices are better than none, for a person may decide with them: of what is
        left, as many are tested as would have been needed.
        """
        self._last = True
        left = [each for each in standing if each.key not in self._valid][: self.wanted - len(self._valid)]
        if left:
            self._begin(left)
        return bool(left)

    def _begin(self, run: list[Product]) -> None:
        self._block = tuple(each.key for each in run)
        self.history.append(Block(self.tolerance, self._block))


def _by_price(product: Product) -> tuple[Decimal, str]:
    return product.price, product.key

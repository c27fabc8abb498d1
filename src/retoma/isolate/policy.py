"""The sandbox policy of this process for its children."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retoma.system.settings import Settings

WITHOUT: tuple[str, ...] = ()
"""Layers that are left out, as if the kernel did not have them: for tests of the report about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What children may do, for all children of this process."""

    sandbox: str = "auto"
    read: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        return cls(
            sandbox=settings.sandbox,
            read=tuple(str(each.absolute()) for each in settings.sandbox_read),
            environment=settings.sandbox_environment,
            private=(str(settings.home.absolute()),),
            without=WITHOUT,
        )


_ALLOWED = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|TZ|TESSDATA_PREFIX|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|NIX_LD\w*"
    r"|PYTHON(PATH|HOME|UTF8|HASHSEED|WARNINGS|MALLOC|OPTIMIZE|COERCECLOCALE|SAFEPATH|PYCACHEPREFIX)"
    r"|(OMP|OPENBLAS|MKL|NUMEXPR|VECLIB|MALLOC)_\w+"
)


def environment_of(given: Mapping[str, str], *, more: Sequence[str] = (), folder: str | None = None) -> dict[str, str]:
    """The variables of *given* that a child gets: those of a list, and *more*. *folder* is its
    home and temporary folder.
    """
    kept = {name: value for name, value in given.items() if _ALLOWED.fullmatch(name) or name in more}
    # The memory limit counts reserved address space: each malloc arena reserves 64 MB and each BLAS thread more, so a
    # machine with many cores would exhaust the limit without using any memory.
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        kept.setdefault(name, "1")
    kept.setdefault("MALLOC_ARENA_MAX", "2")
    if folder is not None:
        kept |= {"HOME": folder, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
    return kept

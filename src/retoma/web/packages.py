"""Packages whose templates, static files and words the site serves: our own, and those of the extensions of an app."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable

from retoma.app.extension import Extension

_packages: tuple[str, ...] = ("retoma.web", "retoma.web.console")


def add(package: str) -> None:
    """Serve the files of *package*, too."""
    global _packages  # noqa: PLW0603 - what a process serves only grows, and readers keep what they read by this value
    if package not in _packages:
        _packages = (*_packages, package)


def serve(extensions: Iterable[Extension]) -> None:
    """Serve the files of *extensions*."""
    for each in extensions:
        if each.package is not None:
            add(each.package)


def packages() -> tuple[str, ...]:
    """Our own packages first, then every one that was added."""
    return _packages


def files(packages: tuple[str, ...], name: str) -> list[Traversable]:
    """The file or folder *name* of each of *packages* that has one."""
    found = [resources.files(package).joinpath(*name.split("/")) for package in packages]
    return [each for each in found if each.is_dir() or each.is_file()]

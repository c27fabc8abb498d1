"""What Retoma is made of, as the lock says it: a bill of materials, the notices of licences, and known advisories.

tools/parts.py sbom FILE        CycloneDX 1.6 as JSON
tools/parts.py notice FILE      the licences of what is installed with Retoma
tools/parts.py advisories       ask a database of advisories about every version of the lock
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import sys
import tomllib
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OSV = "https://api.osv.dev/v1/querybatch"
_SECONDS = 20.0
_SHORT = 60  # what is longer is the text of a licence, and not its name

SPDX = {
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL-3.0-or-later",
    "3-Clause BSD License": "BSD-3-Clause",
    "BSD-3-Clause, Apache-2.0, dependency licenses": "BSD-3-Clause AND Apache-2.0",
    "BSD": "BSD License",
}
"""What packages call their licence, and its name by SPDX. "BSD License" stays: it does not say which."""


@dataclass(frozen=True)
class Part:
    """One distribution of the lock."""

    name: str
    version: str
    hashes: tuple[str, ...]
    marker: str = ""
    licences: tuple[str, ...] = ()
    """By SPDX where it has a name there; empty when it is not installed on this machine."""
    installed: bool = False

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


@dataclass(frozen=True)
class Vendored:
    """A file of somebody else's that is kept in the source."""

    path: str
    name: str
    version: str
    licence: str
    sha256: str
    purl: str = field(default="")


def locked() -> list[Part]:
    """Every distribution of the lock, by name."""
    text = LOCK.read_text(encoding="utf-8").replace("\\\n", " ")
    parts = []
    for line in text.splitlines():
        found = re.match(r"([\w.-]+)(?:\[.*?\])?==([^\s;]+)\s*(?:;\s*(.*?))?\s*(--hash=.*)", line)
        if found:
            hashes = tuple(sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", found[4])))
            parts.append(_described(canonicalize_name(found[1]), found[2], hashes, found[3] or ""))
    return sorted(parts, key=lambda part: part.name)


def vendored() -> list[Vendored]:
    """Every file that is kept, as pyproject.toml has it."""
    return [Vendored(**each) for each in PROJECT["tool"]["retoma"]["vendored"]]


def running() -> dict[str, set[str]]:
    """Those that are installed with Retoma or one of its extras, each with the extras that are asked of it."""
    project = PROJECT["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return _reached([*project["dependencies"], *extras])


def everything() -> dict[str, set[str]]:
    """The same with what tests, checks and builds it."""
    groups = [each for group in PROJECT["dependency-groups"].values() for each in group]
    found = _reached([*groups, *PROJECT["build-system"]["requires"]])
    for name, extras in running().items():
        found.setdefault(name, set()).update(extras)
    return found


def needs(name: str, extras: Iterable[str]) -> list[Requirement]:
    """What an installed distribution needs on this machine, with its *extras*."""
    try:
        said = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    here = [{**default_environment(), "extra": extra} for extra in ("", *extras)]
    wanted = map(Requirement, said)
    return [each for each in wanted if each.marker is None or any(each.marker.evaluate(one) for one in here)]


def _reached(asked: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    left = [Requirement(each) for each in asked]
    while left:
        each = left.pop()
        name = canonicalize_name(each.name)
        if name == PROJECT["project"]["name"] or (name in found and each.extras <= found[name]):
            continue
        found.setdefault(name, set()).update(each.extras)
        left += needs(name, found[name])
    return found


def licence_names(metadata: Any) -> Iterator[str]:
    """What *metadata* says of its licence, by SPDX where that has a name for it."""
    if said := metadata.get("License-Expression"):
        yield said
        return
    classifiers = [
        each.split("::")[-1].strip() for each in metadata.get_all("Classifier") or [] if "License ::" in each
    ]
    plain = (metadata.get("License") or "").strip()
    named = [each for each in classifiers if each not in {"OSI Approved", "DFSG approved"}]
    for each in named or ([plain] if 0 < len(plain) <= _SHORT else []):
        yield SPDX.get(each, each)


def _described(name: str, version: str, hashes: tuple[str, ...], marker: str) -> Part:
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return Part(name, version, hashes, marker)
    if found.version != version:  # the lock has another version of it for another Python
        return Part(name, version, hashes, marker)
    return Part(name, version, hashes, marker, tuple(licence_names(found.metadata)), installed=True)


# — the bill of materials —


def sbom() -> dict[str, Any]:
    """A bill of materials, the same for the same lock; only SOURCE_DATE_EPOCH gives it a date."""
    parts = locked()
    runs, names, asked = running(), _here(parts), everything()
    project = PROJECT["project"]
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    files = vendored()
    components = [_component(part, runs=part.name in runs) for part in parts] + [_file(each) for each in files]
    direct = sorted(names[name].purl for name in _asked() if name in names)
    dependencies = [{"ref": own, "dependsOn": direct + [each.purl for each in files]}]
    dependencies += [
        {"ref": part.purl, "dependsOn": sorted(_needed(part, asked.get(part.name, set()), names))} for part in parts
    ]
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": dependencies,
    }
    content = json.dumps(bill, sort_keys=True)
    bill["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(content.encode()).hexdigest())}"
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        bill["metadata"]["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).isoformat()
    return bill


def _asked() -> set[str]:
    project = PROJECT["project"]
    extras = [each for extra in project["optional-dependencies"].values() for each in extra]
    return {canonicalize_name(Requirement(each).name) for each in (*project["dependencies"], *extras)}


def _here(parts: list[Part]) -> dict[str, Part]:
    """By name; of two versions of one, that of this machine."""
    return {part.name: part for part in sorted(parts, key=lambda part: part.installed)}


def _needed(part: Part, extras: set[str], names: dict[str, Part]) -> set[str]:
    found = (canonicalize_name(each.name) for each in needs(part.name, extras))
    return {names[name].purl for name in found if name in names}


def _component(part: Part, *, runs: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": part.purl,
        "name": part.name,
        "version": part.version,
        "scope": "required" if runs else "excluded",
        "hashes": [{"alg": "SHA-256", "content": each} for each in part.hashes],
        "purl": part.purl,
    }
    if part.licences:
        found["licenses"] = _licences(part.licences)
    if part.marker:
        found["properties"] = [{"name": "retoma:only-where", "value": part.marker}]
    return found


def _licences(names: tuple[str, ...]) -> list[dict[str, Any]]:
    if len(names) == 1 and re.search(r" (AND|OR) ", names[0]):
        return [{"expression": names[0]}]
    return [{"license": {"name" if " " in each else "id": each}} for each in names]


def _file(each: Vendored) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": each.purl,
        "name": each.name,
        "version": each.version,
        "scope": "required",
        "hashes": [{"alg": "SHA-256", "content": each.sha256}],
        "licenses": [{"license": {"id": each.licence}}],
        "purl": each.purl,
        "properties": [{"name": "retoma:file", "value": each.path}],
    }


# — the notices —

_HEAD = """\
Retoma
Copyright the Retoma authors

Retoma is licensed under the Apache License, Version 2.0; see LICENSE.

The source holds these files of others:

{files}

With it, or with one of its extras, the packages below are installed, each under its own licence. None of them is part
of this source, and none is under the GPL or the AGPL. Those under the LGPL or the MPL are marked with *: you may
replace them by a version of your own, and changes to their own files stay under their licence. This is what the
packages say of themselves; some carry libraries of others, which their own notices name.

"""


_WORK = "  O Alienista, Machado de Assis (1839-1908)  public domain  tests/pipelines/books/works/o_alienista.txt"
"""A text that the tests read; its author died more than 70 years ago."""


def notice() -> str:
    """The text of NOTICE: what is kept in the source, and what is installed with it."""
    parts = locked()
    runs = running()
    files = "\n".join([*(f"  {each.name} {each.version}  {each.licence}  {each.path}" for each in vendored()), _WORK])
    lines = []
    for part in parts:
        if part.name in runs and part.installed:
            said = " or ".join(part.licences)
            lines.append(f"{'*' if re.search('LGPL|MPL', said) else ' '} {part.name}  {said}")
    return _HEAD.format(files=files) + "\n".join(lines) + "\n"


# — advisories —


def advisories(database: str, tell: Any = print) -> int:
    """How many advisories *database* knows about the versions of the lock; 0 as well when it cannot be reached."""
    parts = locked()
    asked = {
        "queries": [{"package": {"name": part.name, "ecosystem": "PyPI"}, "version": part.version} for part in parts]
    }
    request = urllib.request.Request(  # noqa: S310 - the address is ours, or the caller's
        database, data=json.dumps(asked).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answered:  # noqa: S310
            results = json.load(answered)["results"]
        found = [
            (part, [each["id"] for each in (result or {}).get("vulns", [])])
            for part, result in zip(parts, results, strict=True)
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        tell(f"NOT CHECKED: the database of advisories at {database} cannot be asked ({error}).")
        tell(f"Nothing is known about the {len(parts)} versions of {LOCK.name}. Try again where it can be reached.")
        return 0
    for part, ids in found:
        for each in ids:
            tell(f"{part.name} {part.version}: {each}")
    count = sum(len(ids) for _, ids in found)
    tell(f"{count or 'No'} known advisories about {len(parts)} versions of {LOCK.name}.")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("sbom", "notice"):
        commands.add_parser(name).add_argument("file", type=Path)
    commands.add_parser("advisories").add_argument("--database", default=OSV)
    given = parser.parse_args()
    match given.what:
        case "sbom":
            given.file.parent.mkdir(parents=True, exist_ok=True)
            given.file.write_text(json.dumps(sbom(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
            print(given.file)
        case "notice":
            given.file.write_text(notice(), encoding="utf-8")
        case "advisories":
            return 1 if advisories(given.database) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

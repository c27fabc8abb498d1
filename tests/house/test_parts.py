"""What Retoma is made of: a bill of materials that is whole, licences that we may use, kept files as they were."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "parts.py"

ALLOWED = {
    "0BSD", "Apache-2.0", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "MIT", "MIT-0",
    "MIT-CMU", "PSF-2.0", "Zlib",
}  # fmt: skip
LISTED = {"LGPL-3.0-only", "LGPL-3.0-or-later", "MPL-2.0"}
"""May be used as they are; NOTICE marks them."""


@pytest.fixture(scope="module")
def parts() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parts", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["parts"] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def atoms(licence: str) -> set[str]:
    return {each.strip(" ()") for each in re.split(r" AND | OR ", licence)}


# — licences —


def test_every_distribution_of_the_lock_has_a_licence_that_we_may_use(parts: ModuleType) -> None:
    wrong = {
        part.name: part.licences
        for part in parts.locked()
        if part.installed and (not part.licences or set().union(*map(atoms, part.licences)) - ALLOWED - LISTED)
    }

    assert not wrong, "Look at the licence; then name it in ALLOWED or LISTED, or do without the package"


def test_what_is_not_installed_here_is_for_another_machine(parts: ModuleType) -> None:
    absent = {part.name: part.marker for part in parts.locked() if not part.installed}

    assert not [name for name, marker in absent.items() if not marker or Marker(marker).evaluate()]


def test_no_licence_that_spreads_is_allowed() -> None:
    assert not [each for each in ALLOWED | LISTED if re.search(r"(?<!L)GPL|AGPL|SSPL|BUSL|NC|NonCommercial", each)]


def test_the_notice_is_in_step_with_what_is_installed(parts: ModuleType) -> None:
    kept = (ROOT / "NOTICE").read_text(encoding="utf-8")
    lines = {found[1]: found[0] for found in re.finditer(r"^[* ] (\S+)  .*$", kept, re.MULTILINE)}
    runs, locked = parts.running(), parts.locked()

    wanted = {part.name: " or ".join(part.licences) for part in locked if part.installed and part.name in runs}
    wrong = [name for name, licence in wanted.items() if licence not in lines.get(name, "")]
    unmarked = [name for name in wanted if re.search("LGPL|MPL", lines.get(name, "")) and lines[name][0] != "*"]

    assert not wrong, "Try: make notice"
    assert not unmarked
    assert not lines.keys() - {part.name for part in locked}, "Try: make notice"
    assert all(each.path in kept for each in parts.vendored())
    assert "NOTICE" in parts.PROJECT["project"]["license-files"]


# — kept files —


def test_each_file_of_others_is_the_one_that_was_looked_at(parts: ModuleType) -> None:
    for each in parts.vendored():
        assert hashlib.sha256((ROOT / each.path).read_bytes()).hexdigest() == each.sha256, each.path


def test_no_file_of_others_is_kept_unnamed(parts: ModuleType) -> None:
    there = {str(path.relative_to(ROOT)) for path in ROOT.glob("src/**/vendor/**/*") if path.is_file()}
    licences = {path for path in there if path.endswith(".LICENSE.txt")}

    assert there - licences == {each.path for each in parts.vendored()}
    assert len(licences) == len(parts.vendored())


# — the bill of materials —


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], bytes]:
    file = tmp_path_factory.mktemp("bill") / "retoma.cdx.json"
    subprocess.run([sys.executable, TOOL, "sbom", file], check=True, capture_output=True, timeout=120)
    return json.loads(file.read_bytes()), file.read_bytes()


def test_the_bill_has_the_shape_of_cyclonedx(bill: tuple[dict[str, Any], bytes]) -> None:
    said, _ = bill

    assert (said["bomFormat"], said["specVersion"], said["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", said["serialNumber"])
    refs = [each["bom-ref"] for each in said["components"]] + [said["metadata"]["component"]["bom-ref"]]
    assert len(refs) == len(set(refs))
    for each in said["components"]:
        assert each["type"] == "library"
        assert each["scope"] in {"required", "excluded"}
        assert each["purl"] == each["bom-ref"]
        assert each["purl"].endswith(f"{each['name']}@{each['version']}")
        assert all(
            hash["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", hash["content"]) for hash in each["hashes"]
        )
        for licence in each.get("licenses", []):
            assert licence.keys() in ({"expression"}, {"license"})
            assert licence.get("license", {"id": ""}).keys() in ({"id"}, {"name"})
    for each in said["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= set(refs)
    assert {each["ref"] for each in said["dependencies"]} >= {ref for ref in refs if ref.startswith("pkg:pypi")}


def test_the_bill_names_every_pin_with_its_hashes(bill: tuple[dict[str, Any], bytes]) -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([^\s;]+)", lock, re.MULTILINE)
    hashes = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock))
    said, _ = bill
    there = {(each["name"], each["version"]) for each in said["components"]}

    assert {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in pins} <= there
    assert hashes <= {hash["content"] for each in said["components"] for hash in each["hashes"]}
    runs = {each["name"] for each in said["components"] if each["scope"] == "required"}
    assert {"psycopg", "alembic", "fastapi", "htmx.org"} <= runs
    assert not {"pytest", "mypy", "hypothesis"} & runs


def test_the_bill_is_the_same_for_the_same_lock(bill: tuple[dict[str, Any], bytes], tmp_path: Path) -> None:
    subprocess.run([sys.executable, TOOL, "sbom", tmp_path / "again"], check=True, capture_output=True, timeout=120)

    assert (tmp_path / "again").read_bytes() == bill[1]
    assert "timestamp" not in bill[0]["metadata"]


# — advisories —


class _Database(BaseHTTPRequestHandler):
    """A database of advisories that knows one."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        known = {"jinja2": [{"id": "TEST-2026-1"}]}
        body = json.dumps({"results": [{"vulns": known.get(each["package"]["name"], [])} for each in asked]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def database() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Database) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def advisories(database: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, "advisories", "--database", database],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_what_is_known_against_a_locked_version_is_told_and_fails(database: str) -> None:
    told = advisories(database)

    assert told.returncode == 1
    assert re.search(r"^jinja2 \S+: TEST-2026-1$", told.stdout, re.MULTILINE)
    assert "1 known advisories about" in told.stdout


def test_a_database_that_cannot_be_asked_is_said_plainly_and_fails_nothing() -> None:
    told = advisories("http://127.0.0.1:9/")

    assert told.returncode == 0
    assert told.stdout.startswith("NOT CHECKED: the database of advisories at http://127.0.0.1:9/ cannot be asked")
    assert "Nothing is known about the" in told.stdout


# — floors —


@pytest.mark.parametrize(
    ("name", "oldest"),
    [
        ("python-multipart", "0.0.27"),  # CVE-2024-24762, CVE-2024-53981, CVE-2026-42561
        ("starlette", "0.49.1"),  # CVE-2024-47874, CVE-2025-54121, CVE-2025-62727
        ("jinja2", "3.1.6"),  # CVE-2025-27516
    ],
)
def test_no_version_that_is_known_to_be_weak_is_allowed(parts: ModuleType, name: str, oldest: str) -> None:
    web = [Requirement(each) for each in parts.PROJECT["project"]["optional-dependencies"]["web"]]
    (asked,) = [each for each in web if each.name == name]
    (floor,) = [each.version for each in asked.specifier if each.operator == ">="]

    assert Version(floor) >= Version(oldest)
    assert {part.version for part in parts.locked() if part.name == name} <= set(
        asked.specifier.filter(part.version for part in parts.locked() if part.name == name)
    )

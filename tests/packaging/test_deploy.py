"""deploy/: the units, the compose file, the chart and the image say what they promise. The image is built and run by
make images (test_image.py); helm and a compose command are not needed here, for both files are read as they are.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from retoma import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = sorted(path.name for path in (DEPLOY / "systemd").iterdir() if path.suffix in {".service", ".timer"})
PARTS = ("migrate", "serve", "worker")
DRAIN = Settings().drain_seconds


# — systemd —


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with programs that are on this machine: systemd looks for them."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text(encoding="utf-8")
        program = str(Path(sys.executable).parent / "retoma")
        text = text.replace("/opt/retoma/bin/retoma", program).replace("/opt/retoma/backup", str(DEPLOY / "backup"))
        (tmp_path / name).write_text(text)
    return tmp_path


def test_systemd_finds_no_fault_in_the_units(units: Path) -> None:
    said = _analyze(units, "verify", "--man=no", *UNITS)

    assert (said.returncode, said.stdout + said.stderr) == (0, "")


@pytest.mark.parametrize("name", [name for name in UNITS if name.startswith(("retoma-serve", "retoma-worker"))])
def test_a_unit_is_exposed_to_little(units: Path, name: str) -> None:
    said = _analyze(units, "security", "--offline=true", "--threshold=25", name)

    assert said.returncode == 0, said.stdout[-300:]


def _analyze(folder: Path, verb: str, *words: str) -> subprocess.CompletedProcess[str]:
    files = [str(folder / word) if word in UNITS else word for word in words]
    return subprocess.run(["systemd-analyze", verb, *files], capture_output=True, text=True, check=False)


def test_a_unit_that_is_stopped_has_time_to_drain() -> None:
    for name in ("retoma-serve.service", "retoma-worker@.service"):
        unit = _unit(name)
        assert unit["KillMode"] == "mixed"
        assert unit["Restart"] == "always"
        assert float(unit["TimeoutStopSec"]) > DRAIN
        assert unit["User"] == "retoma"


def test_each_unit_reads_the_address_of_its_own_role() -> None:
    files = {name: _unit(name)["EnvironmentFile"] for name in UNITS if name.endswith(".service")}

    assert files == {
        "retoma-backup.service": "/etc/retoma/owner.env",
        "retoma-migrate.service": "/etc/retoma/owner.env",
        "retoma-serve.service": "/etc/retoma/serve.env",
        "retoma-worker@.service": "/etc/retoma/worker.env",
    }


def _unit(name: str) -> dict[str, str]:
    lines = (DEPLOY / "systemd" / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]\w+=", line))


# — compose —


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def test_what_a_service_names_is_there(compose: Any) -> None:
    services = compose["services"]

    assert services.keys() == {"db", "migrate", "serve", "worker", "backup"}
    for name, service in services.items():
        mounted = {each.partition(":")[0] for each in service.get("volumes", []) if not each.startswith(".")}
        assert mounted <= compose["volumes"].keys(), name
        assert set(service["networks"]) <= compose["networks"].keys(), name
        assert service.get("depends_on", {}).keys() <= services.keys(), name
        for each in service.get("volumes", []):
            if each.startswith("."):
                assert (DEPLOY / each.partition(":")[0]).is_dir()
    used = {each.partition(":")[0] for service in services.values() for each in service.get("volumes", [])}
    assert compose["volumes"].keys() <= used


def test_a_service_is_locked_in_and_has_time_to_drain(compose: Any) -> None:
    for name in PARTS:
        service = compose["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert float(service["stop_grace_period"].removesuffix("s")) > DRAIN
        assert "ports" not in service or name == "serve"
    assert compose["networks"]["inside"] == {"internal": True}
    assert compose["services"]["db"]["networks"] == ["inside"]


def test_a_service_reads_the_address_of_its_role_and_no_other(compose: Any) -> None:
    seen = {
        name: {each.split(":")[0] for each in service.get("volumes", []) if each.startswith("url")}
        for name, service in compose["services"].items()
    }

    assert seen == {
        "db": set(),
        "migrate": {"urls", "url-owner", "url-worker", "url-web"},
        "serve": {"url-web"},
        "worker": {"url-worker"},
        "backup": {"url-owner"},
    }
    with_superuser = [
        name for name, service in compose["services"].items() if "POSTGRES_PASSWORD" in str(service["environment"])
    ]
    assert with_superuser == ["db", "migrate"]


def test_the_database_is_there_before_the_tables_and_these_before_the_parts(compose: Any) -> None:
    services = compose["services"]

    assert services["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    for name in ("serve", "worker", "backup"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert services[name]["restart"] == "unless-stopped"


def test_every_setting_of_the_compose_file_is_in_its_example(compose: Any) -> None:
    wanted = set(re.findall(r"\$\{(\w+)", json.dumps(compose)))
    shown = set(re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))

    assert wanted - shown == {"RETOMA_IMAGE", "RETOMA_POSTGRES_IMAGE"}
    assert shown <= wanted


# — the image —


def test_the_image_promises_what_the_parts_need() -> None:
    text = (DEPLOY / "docker/Dockerfile").read_text(encoding="utf-8")
    steps = [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", "", text).splitlines() if re.match("[A-Z]", line)]
    last = dict(steps)

    assert [word for word, _ in steps].count("FROM") == 2
    assert last["USER"] == "10001:10001"
    assert last["ENTRYPOINT"] == '["/opt/retoma/bin/entry"]'
    assert last["HEALTHCHECK"].endswith('CMD ["/opt/retoma/bin/ready"]')
    assert "/readyz" in (DEPLOY / "docker/ready").read_text(encoding="utf-8")
    assert any("--require-hashes" in rest for word, rest in steps if word == "RUN")
    # Without a shell in between, what is stopped gets the signal.
    assert all(rest.startswith("[") for word, rest in steps if word in {"RUN", "CMD", "ENTRYPOINT"})
    copied = [rest.split()[:-1] for word, rest in steps if word == "COPY" and "--from" not in rest]
    for source in (each for words in copied for each in words if not each.startswith("--")):
        assert (DEPLOY.parent / source).exists(), source


@pytest.mark.parametrize("part", ["serve", "worker", "watchdog"])
def test_the_program_replaces_the_script_that_starts_it(part: str) -> None:
    text = (DEPLOY / "docker/entry").read_text(encoding="utf-8")

    reached = re.search(rf"^{part}\) (.*)$", text, re.MULTILINE) or re.search(r"^\*\) (.*)$", text, re.MULTILINE)

    assert reached
    assert reached[1].startswith("exec retoma ")


def test_a_part_whose_address_is_not_there_yet_says_what_to_do(tmp_path: Path) -> None:
    ran = subprocess.run(
        [DEPLOY / "docker/entry", "worker"],
        env={"PATH": "/usr/bin:/bin", "DATABASE_URL_FILE": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert "Next: run the part 'migrate' first" in ran.stderr


# — the chart —


def rendered(text: str, values: Any) -> list[Any]:
    """The documents of a template. Ours has values and the name of the release, and no other expression, so that
    reading it needs no more than this.
    """

    def value(found: re.Match[str]) -> str:
        where = found[1].split(".")
        if where == ["Release", "Name"]:
            return "shop"
        assert where[0] == "Values", f"{found[0]} is more than this chart allows itself"
        place = values
        for name in where[1:]:
            place = place[name]
        return json.dumps(place) if not isinstance(place, str) else place

    return list(yaml.safe_load_all(re.sub(r"\{\{ \.([\w.]+) \}\}", value, text)))


@pytest.fixture(scope="module")
def chart() -> dict[str, Any]:
    values = yaml.safe_load((DEPLOY / "helm/retoma/values.yaml").read_text(encoding="utf-8"))
    files = sorted((DEPLOY / "helm/retoma/templates").glob("*.yaml"))
    documents = [each for file in files for each in rendered(file.read_text(encoding="utf-8"), values)]
    return {f"{each['kind']} {each['metadata']['name']}": each for each in documents}


def test_every_value_of_the_chart_is_used() -> None:
    values = yaml.safe_load((DEPLOY / "helm/retoma/values.yaml").read_text(encoding="utf-8"))
    templates = "".join(file.read_text(encoding="utf-8") for file in (DEPLOY / "helm/retoma/templates").iterdir())

    def leaves(place: Any, name: str) -> list[str]:
        if isinstance(place, dict):
            return [leaf for key, each in place.items() for leaf in leaves(each, f"{name}.{key}")]
        return [name]

    assert [leaf for leaf in leaves(values, ".Values") if leaf not in templates] == []
    assert re.findall(r"\{\{(?! \.[\w.]+ \}\})", templates) == []


def test_every_pod_of_the_chart_is_locked_in_and_has_the_address_of_its_role(chart: dict[str, Any]) -> None:
    assert chart.keys() == {
        "Job shop-migrate",
        "Deployment shop-serve",
        "Service shop-serve",
        "Deployment shop-worker",
    }
    roles = {"Job shop-migrate": "owner", "Deployment shop-serve": "web", "Deployment shop-worker": "worker"}
    for name, role in roles.items():
        pod = chart[name]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["env"][0]["valueFrom"]["secretKeyRef"] == {"name": f"retoma-{role}", "key": "url"}
        if name.startswith("Deployment"):
            assert pod["terminationGracePeriodSeconds"] > DRAIN
            assert chart[name]["spec"]["selector"]["matchLabels"].items() <= (
                chart[name]["spec"]["template"]["metadata"]["labels"].items()
            )
    (server,) = chart["Deployment shop-serve"]["spec"]["template"]["spec"]["containers"]
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_devcontainer_makes_the_environment() -> None:
    said = json.loads((DEPLOY.parent / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))

    assert said["postCreateCommand"] == "make setup"

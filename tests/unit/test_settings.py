"""Settings come from arguments first, then from the environment; what is wrong is said in words."""

import socket
from pathlib import Path

import pytest

from retoma import Settings
from retoma.errors import ConfigurationError


def test_the_defaults_are_those_of_the_guides() -> None:
    settings = Settings.load()

    assert settings.database_url is None
    assert (settings.lease_seconds, settings.heartbeat_seconds, settings.sweep_seconds) == (60, 10, 5)
    assert (settings.worker_processes, settings.worker_at_once, settings.worker_label) == (1, 10, socket.gethostname())
    assert (settings.home, settings.pooler, settings.retention_days) == (Path(".retoma"), "session", 30)


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("DATABASE_URL", "postgresql://host/name", "database_url", "postgresql://host/name"),
        ("RETOMA_DATABASE_URL", "postgresql://host/other", "database_url", "postgresql://host/other"),
        ("RETOMA_HOME", "elsewhere", "home", Path("elsewhere")),
        ("RETOMA_APP", "my.app:app", "app", "my.app:app"),
        ("RETOMA_WORKER_AT_ONCE", "7", "worker_at_once", 7),
        ("RETOMA_WORKER_NICE", "0", "worker_nice", 0),
        ("RETOMA_WORKER_TEMPLATE", "off", "worker_template", "off"),
        ("RETOMA_POOLER", "transaction", "pooler", "transaction"),
        ("WORKER_ID", "ana", "worker_label", "ana"),
        ("RETOMA_WORKER_LABEL", "bia", "worker_label", "bia"),
        ("JOB_LOCK_TTL_MS", "90000", "lease_seconds", 90.0),
        ("JOB_HEARTBEAT_INTERVAL_MS", "2500", "heartbeat_seconds", 2.5),
        ("RETOMA_LEASE_SECONDS", "120", "lease_seconds", 120.0),
    ],
)
def test_the_environment_is_heard(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, field: str, value: object
) -> None:
    monkeypatch.setenv(variable, text)

    assert getattr(Settings.load(), field) == value


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://environment/name")
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "90000")
    monkeypatch.setenv("WORKER_ID", "ana")

    settings = Settings.load(database_url="postgresql://argument/name", lease_seconds=30, worker_label="bia")
    assert (settings.database_url, settings.lease_seconds, settings.worker_label) == (
        "postgresql://argument/name",
        30,
        "bia",
    )


def test_what_is_none_counts_as_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOMA_WORKER_AT_ONCE", "7")

    assert Settings.load(worker_at_once=None, database_url=None).worker_at_once == 7


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"worker_at_once": 0}, "worker_at_once is wrong"),
        ({"worker_at_once": "many"}, "worker_at_once is wrong"),
        ({"lease_seconds": -1}, "lease_seconds is wrong"),
        ({"pooler": "statement"}, "pooler is wrong"),
        ({"lease_seconds": 10, "heartbeat_seconds": 8}, "would be lost by one late beat"),
    ],
)
def test_a_senseless_setting_is_refused_in_words(given: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        Settings.load(**given)

    assert caught.value.next


def test_a_senseless_millisecond_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "a minute")

    with pytest.raises(ConfigurationError, match="JOB_LOCK_TTL_MS must be a number of milliseconds, not 'a minute'"):
        Settings.load()


def test_the_password_is_in_no_complaint_and_in_no_picture_of_the_settings() -> None:
    settings = Settings.load(database_url="postgresql://someone:secret@host/name")

    assert "secret" not in repr(settings)
    assert "secret" not in str(settings)
    with pytest.raises(ConfigurationError) as caught:
        Settings.load(database_url="postgresql://someone:secret@host/name", worker_at_once=0)
    assert "secret" not in str(caught.value)


def test_settings_do_not_change_under_ones_hands() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings.load().worker_at_once = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        ("short", "fewer than 20 characters"),
        ("passwordpasswordpass", "fewer than 10 different characters"),
        ("a" * 40, "fewer than 10 different characters"),
        ("battery-staple1-battery-staple1-", "repeats a shorter word"),
        ("abcdefghijklmnopqrstuvwxyz", "follows the alphabet"),
        ("0123456789" * 3 + "0", "follows the alphabet"),
    ],
)
def test_a_key_that_could_be_guessed_is_refused_and_not_repeated(secret: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        Settings.load(api_key=secret)

    assert "api_key" in str(caught.value)
    assert secret not in str(caught.value)


def test_the_key_of_the_environment_may_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    file.write_text("kJ2-a-secret-that-was-mounted\n")
    monkeypatch.setenv("RETOMA_API_KEY_FILE", str(file))

    found = Settings.load().api_key

    assert found is not None
    assert found.get_secret_value() == "kJ2-a-secret-that-was-mounted"
    file.write_text("short")
    with pytest.raises(ConfigurationError, match="fewer than 20"):
        Settings.load()
    file.unlink()
    with pytest.raises(ConfigurationError, match=r"RETOMA_API_KEY_FILE .* cannot be read: no such file"):
        Settings.load()


@pytest.mark.parametrize("name", ["RETOMA_REUSE_WITHIN", "RETOMA_TENANT"])
def test_whose_answers_are_given_again_is_said_under_the_new_name_and_the_old(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "ana")

    assert Settings.load().reuse_within == "ana"
    assert Settings.load(reuse_within="bruno").reuse_within == "bruno"


def test_the_old_name_still_works_in_a_program() -> None:
    assert Settings.load(tenant="ana").reuse_within == "ana"

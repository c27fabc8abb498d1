"""Settings: from arguments first, then the environment, then the defaults that the guides describe."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from retoma.errors import ConfigurationError
from retoma.model import compat, validation

SPARE_CONNECTIONS = 32
"""Connections beyond web_connections that are read far enough to see whether they are probes, or to
refuse them with a reason.
"""
_OWN_FILES = 150  # descriptors of a server process for uploaded files, child processes and logs


class Settings(BaseSettings):
    """Everything that can be configured; each field is RETOMA_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="RETOMA_", extra="ignore", frozen=True, populate_by_name=True)

    database_url: str | None = Field(
        default=None, validation_alias=AliasChoices("RETOMA_DATABASE_URL", "DATABASE_URL"), repr=False
    )
    """The PostgreSQL server to use; without one, an embedded server is started in *home*."""
    home: Path = Path(".retoma")
    """The folder of the embedded server and other local files."""
    app: str | None = None
    """The user's program, as module:attribute."""
    reuse_within: str = Field(default="", validation_alias=AliasChoices("RETOMA_REUSE_WITHIN", "RETOMA_TENANT"))
    """Answers of providers are reused only by programs with the same value here. It separates nothing else: tenants
    whose work must be separate have a database each.
    """
    unknown_price: Literal["ask", "refuse", "allow"] = "ask"
    """What happens to a call under a budget when its price is unknown: the batch is paused and asks for the price, the
    job fails, or the call is made.
    """
    pooler: Literal["session", "transaction"] = "session"
    """*transaction* behind a PgBouncer in transaction mode: no LISTEN, no prepared statements."""

    lease_seconds: float = Field(default=60.0, gt=0)
    """How long a silent executor keeps its jobs (JOB_LOCK_TTL_MS)."""
    heartbeat_seconds: float = Field(default=10.0, gt=0)
    """How often the supervisor sends the heartbeats of its executors (JOB_HEARTBEAT_INTERVAL_MS)."""
    sweep_seconds: float = Field(default=5.0, gt=0)
    """How often one worker of the fleet records that the database is reachable, at most; due work is found sooner."""
    poll_seconds: float = Field(default=1.0, gt=0)
    """How long an idle executor waits before it polls again, when no hint arrives."""
    drain_seconds: float = Field(default=30.0, ge=0)
    """How long a stopping worker lets handlers finish their current step."""
    grace_seconds: float = Field(default=2.0, ge=0)
    """How long after its time-out a handler may still end by itself, before its executor is killed."""

    worker_label: str = Field(
        default_factory=socket.gethostname, validation_alias=AliasChoices("RETOMA_WORKER_LABEL", "WORKER_ID")
    )
    """The name that people see; the identity is unique per process start."""
    worker_processes: int = Field(default=1, ge=1)
    """Executor processes per worker."""
    worker_at_once: int = Field(default=10, ge=1)
    """Handlers that run at the same time in one executor."""
    worker_nice: int = Field(default=10, ge=0, le=19)
    """The niceness of executor threads: how far they give way to other users of the processors."""
    worker_template: Literal["auto", "off"] = "auto"
    """Whether an executor that replaces another is a copy of a process that has loaded the program already."""

    sandbox: Literal["auto", "require", "off"] = "auto"
    """How isolated functions are sandboxed: as far as this machine can, completely or not at all, or never."""
    sandbox_read: Annotated[tuple[Path, ...], NoDecode] = ()
    """Files and folders that children may read in addition to Python, its modules and the
    system's; separated by colons.
    """
    sandbox_environment: Annotated[tuple[str, ...], NoDecode] = ()
    """Environment variables that children get in addition to the usual ones; separated by commas."""

    pool_connections: int = Field(default=10, ge=2)
    """Connections to the database that one process of an app, or a server process, keeps at most."""
    connect_timeout: int = Field(default=5, ge=1)
    """Seconds to wait for the database to answer a new connection."""
    statement_seconds: float = Field(default=30.0, gt=0)
    """The longest that a statement of ours may take."""
    answer_seconds: float = Field(default=10.0, gt=0)
    """How much later than that its answer may arrive before the connection is given up; also behind a pooler."""
    idle_seconds: float = Field(default=60.0, gt=0)
    """The longest that a transaction of ours may be idle between two statements, including that of run.transact."""
    watchdog_seconds: float = Field(default=30.0, gt=0)
    """How often one worker of the fleet diagnoses batches that do not progress."""
    overdue_hours: float = Field(default=24.0, gt=0)
    """Jobs that have been running for longer than this are ended by the daily clean-up."""
    zone: str = "UTC"
    """The time zone of the engine's own schedules, such as America/Sao_Paulo."""
    retention_days: float = Field(default=30.0, gt=0)
    """How long ended jobs are kept."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level of events that are logged."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Lines for people or for machines; *auto* is text in a terminal and JSON elsewhere."""

    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    """Where a worker answers scrapes of Prometheus; without it, nowhere. Each worker of a machine needs its own."""
    metrics_host: str = "127.0.0.1"
    """The address of that port."""
    metrics_open: Literal["key", "loopback"] = "key"
    """Who may read /metrics of the server: callers with a key that may read, or also everybody on this machine."""

    api_key: SecretStr | None = Field(default=None, exclude=True)
    """A key with all scopes for HTTP, in addition to those created with 'retoma key create'."""
    api_key_file: Path | None = None
    """A file that contains it, such as a mounted secret."""
    key_days: float = Field(default=365.0, gt=0)
    """After how many days a new key expires by default."""
    session_hours: float = Field(default=12.0, gt=0, le=24 * 365)
    """How long a browser session lasts."""
    token: Literal["on", "off"] = "on"  # noqa: S105 - not one itself
    """Whether a server without keys asks callers from this machine for the token in *home*."""
    audit_days: float = Field(default=365.0, ge=1)
    """How long the audit is kept."""
    oidc_issuer: str | None = None
    """The OpenID provider with which people sign in, as it calls itself: https://login.example.org."""
    oidc_client_id: str = ""
    """What this server is called there."""
    oidc_client_secret: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """The secret for it, where the provider gives one."""
    oidc_scopes: str = "openid profile email"
    """What the provider is asked to tell."""
    oidc_name_claim: str = "preferred_username"
    """Which claim has the name of the account."""
    oidc_role_claim: str = "groups"
    """Which claim has the person's groups."""
    oidc_roles: Annotated[tuple[tuple[str, str], ...], NoDecode] = ()
    """Which group has which role, such as retoma-admins=admin; separated by commas, and compared exactly."""
    oidc_role: Literal["reader", "reviewer", "operator", "admin"] | None = None
    """The role of whoever has none by a group; without one they are refused."""
    webhook_private: Literal["on", "off"] = "off"
    """Whether webhooks may go to addresses inside: private, loopback, and over plain http."""
    webhook_seconds: float = Field(default=15.0, gt=0, le=60)
    """How long the receiver of a webhook may take to answer."""
    web_read_only: Literal["on", "off"] = "off"
    """Whether the server refuses every change: then its pages and its API show, and nothing more."""
    web_tries: int = Field(default=20, ge=1)
    """How many wrong keys an address may try in a minute before it is refused for the rest of it."""
    web_allow_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Host names under which the API may be called, in addition to those of this machine; separated by commas."""
    web_trace_url: str = Field(default="", pattern=r"^(|https?://[^\s]+)$")
    """The address of a trace in your own tracing system, to which the page of a job leads; ``{id}`` in it stands for
    the trace id. Empty shows no link.
    """
    web_header_bytes: int = Field(default=65_536, ge=1000)
    """The largest head of a request: its first line and its headers together."""
    web_headers: int = Field(default=100, ge=10)
    """How many headers a request may have."""
    web_header_seconds: float = Field(default=10.0, gt=0)
    """How long a client may take to send a head, and to begin once it has connected."""
    web_body_seconds: float = Field(default=30.0, gt=0)
    """How long a client may pause between two pieces of a body, and until it reads the response."""
    web_keep_alive_seconds: float = Field(default=75.0, gt=0)
    """How long a connection may be idle between two requests; longer than a proxy in front keeps it."""
    web_connections: int = Field(default=2000, ge=16)
    """Connections of a server process."""
    web_connections_per_address: int = Field(default=500, ge=1)
    """Connections of a server process that may come from one address, unless it is a trusted proxy."""
    web_streams_per_key: int = Field(default=400, ge=1)
    """Event streams of a server process that one key may follow at once."""
    web_streams_per_address: int = Field(default=400, ge=1)
    """Event streams of a server process that one address may follow at once."""
    web_body_bytes: int = Field(default=1_000_000, ge=1000)
    """The largest JSON body of a request."""
    web_form_fields: int = Field(default=100, ge=1)
    """How many fields a form with files may have beside the files."""
    web_form_bytes: int = Field(default=1_000_000, ge=1000)
    """How many bytes these fields may have together."""
    web_upload_files: int = Field(default=2000, ge=1)
    """How many files one request may upload."""
    web_upload_bytes: int = Field(default=2_000_000_000, ge=1000)
    """The largest form with files that a request may send."""
    unpacked_bytes: int = Field(default=2_000_000_000, ge=1000)
    """The most bytes that the files in a ZIP may have when unpacked, together."""
    web_waiting: int = Field(default=1000, ge=0)
    """Requests of a server process that may wait for a connection: so many that read, and so many that write."""
    web_wait_seconds: float = Field(default=2.0, gt=0)
    """How long a reading request waits before its caller is told to come again."""
    web_deadline_seconds: float = Field(default=10.0, gt=0)
    """How long a reading request may take, and how long a writing request waits for a connection."""

    alert_webhook: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """The http or https address to which each incident is posted once."""
    alert_webhook_secret: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """A secret with which what is posted is signed, as Standard Webhooks describe."""
    alert_smtp: SecretStr | None = Field(default=None, exclude=True, repr=False)
    """The mail server for incidents, such as smtp://user:password@host:587, or smtps://."""
    alert_email_to: Annotated[tuple[str, ...], NoDecode] = ()
    """Who gets an e-mail about each incident; separated by commas."""
    alert_email_from: str | None = None
    """The sender of these e-mails; without one, retoma at this machine."""
    alert_language: Literal["en", "pt"] = "en"
    """The language of what is sent."""
    alert_resolved: Literal["on", "off"] = "off"
    """Whether a second message says that an incident is over."""

    key_requests_per_minute: int | None = Field(default=None, ge=1)
    """Requests that one API key may make in a minute to one server process; without it there is no limit."""
    key_bytes_per_day: int | None = Field(default=None, ge=1)
    """Bytes that one API key may send in a day; without it there is no limit."""
    key_files_per_day: int | None = Field(default=None, ge=1)
    """Files that one API key may send in a day, those in a ZIP too; without it there is no limit."""
    key_jobs_waiting: int | None = Field(default=None, ge=1)
    """Jobs of one API key that may wait at once; without it there is no limit."""

    @field_validator("api_key")
    @classmethod
    def _no_weak_secret(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and (why := validation.weakness(given.get_secret_value())):
            raise ValueError(f"it {why}, and could be guessed; 'openssl rand -base64 32' prints a good one")
        return given

    @field_validator("oidc_roles", mode="before")
    @classmethod
    def _pairs(cls, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        pairs = [tuple(part.strip() for part in each.rpartition("=")[::2]) for each in given.split(",") if each.strip()]
        if any(not group or role not in ("reader", "reviewer", "operator", "admin") for group, role in pairs):
            raise ValueError("it is group=role, separated by commas; roles are reader, reviewer, operator and admin")
        return pairs

    @model_validator(mode="before")
    @classmethod
    def _read_the_key(cls, given: dict[str, Any]) -> dict[str, Any]:
        file = given.get("api_key_file")
        if file in (None, "") or given.get("api_key") is not None:
            return given
        try:
            text = Path(file).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            why = (getattr(error, "strerror", None) or "it is not text").lower()
            raise ValueError(f"RETOMA_API_KEY_FILE ({file}) cannot be read: {why}") from None
        return {**given, "api_key": text}

    @field_validator("sandbox_read", mode="before")
    @classmethod
    def _split_places(cls, given: Any) -> Any:
        return [each for each in given.split(os.pathsep) if each] if isinstance(given, str) else given

    @field_validator("alert_webhook", "alert_smtp")
    @classmethod
    def _an_address_has_a_known_beginning(cls, given: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        allowed = ("http://", "https://") if info.field_name == "alert_webhook" else ("smtp://", "smtps://")
        if given is not None and not given.get_secret_value().startswith(allowed):
            raise ValueError(f"it must begin with {' or '.join(allowed)}")
        return given

    @field_validator("web_allow_hosts", "sandbox_environment", "alert_email_to", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given

    @model_validator(mode="before")
    @classmethod
    def _honour_other_names(cls, given: dict[str, Any]) -> dict[str, Any]:
        return compat.settings(os.environ, given)

    @model_validator(mode="after")
    def _a_lease_outlives_several_beats(self) -> Settings:
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                f"a lease of {self.lease_seconds:g} s with a heartbeat every {self.heartbeat_seconds:g} s would be "
                "lost by one late beat; make the lease at least twice the heartbeat"
            )
        return self

    @property
    def web_files(self) -> int:
        """How many descriptors a server process needs at its connection limit."""
        return self.web_connections + SPARE_CONNECTIONS + self.pool_connections + _OWN_FILES

    @classmethod
    def load(cls, **given: Any) -> Settings:
        """The settings as they are now; *given* wins, and None counts as not given."""
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            what = f"The setting {where} is wrong" if where else "The settings do not fit together"
            raise ConfigurationError(
                f"{what}: {first['msg'].removeprefix('Value error, ')}.",
                next="Correct it in the environment (RETOMA_ and its name in capitals) or on the command line.",
            ) from None

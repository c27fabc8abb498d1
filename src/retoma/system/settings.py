"""Settings: from arguments first, then the environment, then the defaults that the guides describe."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from retoma.errors import ConfigurationError

_SHORTEST_SECRET = 20


class Settings(BaseSettings):
    """Everything that can be set from outside; each field is RETOMA_ and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="RETOMA_", extra="ignore", frozen=True, populate_by_name=True)

    database_url: str | None = Field(
        default=None, validation_alias=AliasChoices("RETOMA_DATABASE_URL", "DATABASE_URL"), repr=False
    )
    """The PostgreSQL server to use; without one, an embedded server is started in *home*."""
    home: Path = Path(".retoma")
    """Where the embedded server and other local files live."""
    app: str | None = None
    """The user's program, as module:attribute."""
    tenant: str = ""
    """Whose work this is: answers of providers are given again only within it."""
    pooler: Literal["session", "transaction"] = "session"
    """*transaction* when a PgBouncer in transaction mode stands in between: no LISTEN, no prepared statements."""

    lease_seconds: float = Field(default=60.0, gt=0)
    """How long a silent executor keeps its jobs (JOB_LOCK_TTL_MS)."""
    heartbeat_seconds: float = Field(default=10.0, gt=0)
    """How often the supervisor beats for its executors (JOB_HEARTBEAT_INTERVAL_MS)."""
    sweep_seconds: float = Field(default=5.0, gt=0)
    """How often every worker looks for jobs whose worker fell silent."""
    poll_seconds: float = Field(default=1.0, gt=0)
    """How long an idle executor waits before it looks again, when no hint comes."""
    drain_seconds: float = Field(default=30.0, ge=0)
    """How long a stopping worker lets handlers reach the end of their step."""
    grace_seconds: float = Field(default=2.0, ge=0)
    """How long after its time-out a handler may still end by itself, before its executor is killed."""

    worker_label: str = Field(
        default_factory=socket.gethostname, validation_alias=AliasChoices("RETOMA_WORKER_LABEL", "WORKER_ID")
    )
    """The name people see; identity stays unique per process start."""
    worker_processes: int = Field(default=1, ge=1)
    """Executor processes per worker."""
    worker_at_once: int = Field(default=10, ge=1)
    """Handlers that run at the same time in one executor."""
    worker_nice: int = Field(default=10, ge=0, le=19)
    """How far the threads of executors give way to others that want the machine's processors at the same moment."""

    connect_timeout: int = Field(default=5, ge=1)
    """Seconds to wait for the database to answer a new connection."""
    statement_seconds: float = Field(default=30.0, gt=0)
    """The longest a statement of ours may take."""
    idle_seconds: float = Field(default=60.0, gt=0)
    """The longest a transaction of ours may rest between two statements, also that of run.transact."""
    watchdog_seconds: float = Field(default=30.0, gt=0)
    """How often every worker asks why batches do not move."""
    overdue_hours: float = Field(default=24.0, gt=0)
    """What has been running for longer than this is ended by the daily clean-up."""
    zone: str = "UTC"
    """On whose clocks the house's own schedules run, such as America/Sao_Paulo."""
    retention_days: float = Field(default=30.0, gt=0)
    """How long ended jobs are kept."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """From which weight on events are logged."""
    log_format: Literal["auto", "text", "json"] = "auto"
    """Lines for people or for machines; *auto* is text in a terminal and JSON elsewhere."""

    api_key: SecretStr | None = Field(default=None, exclude=True)
    """A key that opens everything over HTTP, beside those that are made with 'retoma key create'."""
    web_allow_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Names under which the API may be called, beside those of this machine itself; commas between them."""
    web_body_bytes: int = Field(default=1_000_000, ge=1000)
    """The largest JSON that is read from a request."""

    @field_validator("api_key")
    @classmethod
    def _no_short_secret(cls, given: SecretStr | None) -> SecretStr | None:
        if given is not None and len(given.get_secret_value()) < _SHORTEST_SECRET:
            raise ValueError(f"it has fewer than {_SHORTEST_SECRET} characters, and could be guessed")
        return given

    @field_validator("web_allow_hosts", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        return [name.strip() for name in given.split(",") if name.strip()] if isinstance(given, str) else given

    @model_validator(mode="before")
    @classmethod
    def _honour_the_seeds_names(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name, field in (("JOB_LOCK_TTL_MS", "lease_seconds"), ("JOB_HEARTBEAT_INTERVAL_MS", "heartbeat_seconds")):
            text = os.environ.get(name)
            if text and field not in given:
                try:
                    given[field] = float(text) / 1000
                except ValueError:
                    raise ValueError(f"{name} must be a number of milliseconds, not {text!r}") from None
        return given

    @model_validator(mode="after")
    def _a_lease_outlives_several_beats(self) -> Settings:
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                f"a lease of {self.lease_seconds:g} s with a heartbeat every {self.heartbeat_seconds:g} s would be "
                "lost by one late beat; make the lease at least twice the heartbeat"
            )
        return self

    @classmethod
    def load(cls, **given: Any) -> Settings:
        """The settings as they are now; *given* wins, and what is None counts as not given."""
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

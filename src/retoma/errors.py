"""The errors of the engine. Each says what happened, why it matters, and what to do next.

RetomaError
├── ConfigurationError      a setting, a pipeline or a provider is wrong: nothing was started
│   ├── UnknownPipeline     a job names a pipeline that this app does not have
│   ├── QueueReserved       a job of a program was to wait among the house's own
│   └── AppNotFound         module:attribute does not lead to a Retoma app
├── DatabaseError           the database cannot be used
│   ├── DatabaseUnreachable nobody answers, or the answer was no
│   ├── DatabaseTooOld      PostgreSQL is older than 15
│   ├── SchemaMismatch      the tables are older than this program, or no longer made for it
│   ├── SchemaBusy          the tables cannot be changed now: somebody holds a lock on them
│   └── EmbeddedUnavailable the embedded server cannot be started here
├── NotFound                no such job, queue, schedule or worker
├── Conflict                the state it is in does not allow what was asked
│   ├── BatchConflict       the same of a batch; its code says which rule
│   ├── RowConflict         the same of a row of a table of yours; its code says which rule
│   └── KeyTaken            a job with this key exists, and the caller asked to be told
├── Unstorable              a value that cannot be kept as JSON; never retried, for a retry would pay again
├── CheckpointInvalid       what was saved does not fit any more; set aside, never deleted
├── AnswerUnfit             a model's answer does not fit what was asked for, also after it was asked to mend it
├── LeaseLost               the job was given to another worker while this one held it
├── StepsFailed             several steps of one map failed; the others are saved
└── IsolatedFailure         a function in a child process did not come back
    ├── IsolatedCrash       it died: signal or exit code, peak memory, last words
    ├── IsolatedTimeout     it took longer than it may
    └── IsolatedMemory      it wanted more memory than it may have

Others stand beside what raises them, under the same root:

RetomaError
├── ProviderError           a service did not do what it was asked: retoma.providers
│   └── DocumentUnreadable  a document that our own readers cannot read: retoma.providers.local.errors
├── AccessDenied            the key is missing, or may not do it: retoma.client.errors
├── ServerUnreachable       no server answers at the address: retoma.client.errors
├── ServerFailed            the server cannot do it now: retoma.client.errors
├── OidcRefused             an OpenID provider, or what it said, is refused: retoma.app.access.oidc
├── FileRefused             a file that a product does not take: retoma.pipelines.files.content
├── StoreFull               no room for a file: retoma.pipelines.files.ingest
├── StoreDown               no answer from the blob store: retoma.pipelines.files.ingest
├── PageUnshown             a page that cannot be drawn: retoma.pipelines.classification.pictures
└── ReportUnreadable        a file that is no report of quotes: retoma.pipelines.quotes.pricing.verify
"""

from __future__ import annotations

from collections.abc import Sequence


class RetomaError(Exception):
    """The root of the tree; *next* says what the reader can do."""

    exit_code = 1

    def __init__(self, message: str, *, next: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next = next

    def __str__(self) -> str:
        return f"{self.message} {self.next}".strip()


class ConfigurationError(RetomaError):
    """A setting, a pipeline or a provider is wrong: nothing was started."""

    exit_code = 2


class UnknownPipeline(ConfigurationError):
    """A job names a pipeline that this app does not have."""


class QueueReserved(ConfigurationError):
    """A job of a program was to wait among the house's own."""


class AppNotFound(ConfigurationError):
    """*module:attribute* does not lead to a Retoma app."""


class DatabaseError(RetomaError):
    """The database cannot be used."""

    exit_code = 2


class DatabaseUnreachable(DatabaseError):
    """No answer, or a refused connection."""


class DatabaseTooOld(DatabaseError):
    """PostgreSQL is older than 15."""


class SchemaMismatch(DatabaseError):
    """The tables are older than this program, or no longer made for it."""


class SchemaBusy(DatabaseError):
    """The tables cannot be changed now: somebody holds a lock on them."""


class EmbeddedUnavailable(DatabaseError):
    """The embedded server cannot be started here."""


class NotFound(RetomaError):
    """No such job, queue, schedule or worker."""

    exit_code = 3


class Conflict(RetomaError):
    """The state it is in does not allow what was asked."""

    exit_code = 4


class BatchConflict(Conflict):
    """The state a batch is in does not allow what was asked; *code* names the rule, and never changes."""

    def __init__(self, message: str, *, code: str, next: str = "") -> None:
        super().__init__(message, next=next)
        self.code = code


class RowConflict(Conflict):
    """A row of a caller's table cannot be taken; *code* is missing, held, ended or exhausted."""

    def __init__(self, message: str, *, code: str, next: str = "") -> None:
        super().__init__(message, next=next)
        self.code = code


class KeyTaken(Conflict):
    """A job with this key exists, and the caller asked to be told."""

    def __init__(self, message: str, *, job_id: int, next: str = "") -> None:
        super().__init__(message, next=next)
        self.job_id = job_id


class Unstorable(RetomaError):
    """A value that cannot be stored as JSON; never retried, because a retry would pay again."""


class CheckpointInvalid(RetomaError):
    """A saved value no longer fits; it is set aside, never deleted."""


class AnswerUnfit(RetomaError):
    """A model's answer does not fit what was asked for; *raw* is its text."""

    def __init__(self, message: str, *, raw: str, next: str = "") -> None:
        super().__init__(message, next=next)
        self.raw = raw


class LeaseLost(RetomaError):
    """Another worker got the job while this one held it."""


class StepsFailed(RetomaError):
    """Several steps of one map failed; the others are saved."""

    def __init__(self, message: str, *, failures: Sequence[tuple[str, BaseException]]) -> None:
        super().__init__(message)
        self.failures = list(failures)


class IsolatedFailure(RetomaError):
    """A function in a child process did not return."""

    def __init__(
        self,
        message: str,
        *,
        next: str = "",
        signal: int | None = None,
        exit_code: int | None = None,
        peak_megabytes: float | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message, next=next)
        self.signal = signal
        self.child_exit_code = exit_code
        self.peak_megabytes = peak_megabytes
        self.stderr_tail = stderr_tail


class IsolatedCrash(IsolatedFailure):
    """The child died: signal or exit code, peak memory, last output."""


class IsolatedTimeout(IsolatedFailure):
    """The function took longer than its limit."""


class IsolatedMemory(IsolatedFailure):
    """The function needed more memory than its limit."""

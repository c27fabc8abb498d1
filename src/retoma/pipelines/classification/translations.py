"""States as the users of the classifier know them; the only place where the two vocabularies meet."""

from __future__ import annotations

from retoma.model.batch import BatchState
from retoma.model.job import JobState

DOCUMENTS = {
    JobState.QUEUED: "PENDENTE",
    JobState.RUNNING: "PROCESSANDO",
    JobState.COMPLETED: "CONCLUIDO",
    JobState.REVIEW: "CONCLUIDO",
    JobState.FAILED: "ERRO",
    JobState.SKIPPED: "PULADO",
    JobState.CANCELLED: "CANCELADO",
}
EXECUTIONS = {
    BatchState.QUEUED: "PENDENTE",
    BatchState.RUNNING: "EM_ANDAMENTO",
    BatchState.COMPLETED: "CONCLUIDO",
    BatchState.STALLED: "TRAVADO",
    BatchState.FAILED: "ERRO",
    BatchState.PAUSED: "PAUSADO",
    BatchState.CANCELLED: "CANCELADO",
}
MODES = {"chunk": "chunk", "whole": "completo"}
POSITIONS = {"end": "fim", "start": "inicio"}
SOURCES = {"upload": "upload", "folder": "pasta", "code": "codigo"}

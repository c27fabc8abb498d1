"""Ids: each kind is a type of its own, so that the id of a job is not taken where that of a batch is meant."""

from typing import NewType

JobId = NewType("JobId", int)
BatchId = NewType("BatchId", int)
CallId = NewType("CallId", int)

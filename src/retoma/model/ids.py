"""Ids: each kind is a type of its own, so that the id of a job cannot be used as that of a batch."""

from typing import NewType

JobId = NewType("JobId", int)
BatchId = NewType("BatchId", int)
CallId = NewType("CallId", int)

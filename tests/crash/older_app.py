"""The same program from before some of its revisions: it knows the tables up to 0004, and needs no others."""

from crash_app import PIPELINES

from retoma import Retoma, migrate

migrate.HEAD = "0004"

app = Retoma(pipelines=PIPELINES)

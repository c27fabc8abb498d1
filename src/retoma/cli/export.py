"""Jobs as a file: JSON lines, or CSV."""

from __future__ import annotations

import csv
import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from retoma.cli.output import json_of, plain
from retoma.errors import ConfigurationError
from retoma.model.job import Job
from retoma.values.escaping import cell


def write(jobs: Iterable[Job], output: Path | None, *, format: str | None = None) -> None:
    """Write *jobs* to the file, or to standard output; as CSV when asked to, or when the file is called so."""
    lines = _csv if format == "csv" or (format is None and output and output.suffix == ".csv") else _json_lines
    if output is None:
        lines(jobs, sys.stdout)
        return
    try:
        # csv writes its own line ends.
        with output.open("w", encoding="utf-8", newline="") as file:
            lines(jobs, file)
    except OSError as error:
        raise ConfigurationError(
            f"{output} cannot be written: {error.strerror}.", next="Name a file in a folder of yours."
        ) from None


def _json_lines(jobs: Iterable[Job], file: TextIO) -> None:
    file.writelines(json_of(job) + "\n" for job in jobs)


def _csv(jobs: Iterable[Job], file: TextIO) -> None:
    names = [field.name for field in dataclasses.fields(Job)]
    rows = csv.writer(file)
    rows.writerow(names)
    for job in jobs:
        said = plain(job) | {"input": job.input, "output": job.output}
        rows.writerow([cell(said[name]) for name in names])

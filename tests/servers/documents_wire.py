"""Azure Document Intelligence: 202 with a place to look, twice "running", then the result, for as long as it lives.

What was handed in stands in RECORD, to which is only added: it is what would be billed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from retoma.testing.wire import Asked, Given

looks: Counter[str] = Counter()
RECORD: list[dict[str, str]] = []


def refused(asked: Asked) -> Given | None:
    key = asked.headers.get("ocp-apim-subscription-key", "")
    if "secret" in key:
        return None
    error = {"code": "401", "message": f"Access denied due to invalid subscription key {key}."}
    return Given.json({"error": error}, status=401)


def analyze(asked: Asked) -> Given:
    if refusal := refused(asked):
        return refusal
    model = asked.path.rpartition("documentModels/")[2].partition(":")[0]
    place = f"documentModels/{model}/analyzeResults/{len(RECORD) + 1:08}-0000?api-version={asked.query['api-version']}"
    RECORD.append({"sha256": hashlib.sha256(asked.body).hexdigest(), "operation": place})
    host = asked.headers["host"]
    return Given(status=202, headers={"operation-location": f"http://{host}/documentintelligence/{place}"})


def result(asked: Asked) -> Given:
    if refusal := refused(asked):
        return refusal
    looks[asked.path] += 1
    if looks[asked.path] <= 2:
        return Given.json({"status": "running"})
    return Given.json({"status": "succeeded", "analyzeResult": RESULT})


def _at(page: int) -> list[dict[str, Any]]:
    return [{"pageNumber": page, "polygon": [0, 0, 1, 0, 1, 1, 0, 1]}]


RESULT = {
    "apiVersion": "2024-11-30",
    "modelId": "prebuilt-layout",
    "content": "Contrato de locação 🏠\nTotal",
    "pages": [
        {"pageNumber": 1, "lines": [{"content": "Contrato de locação 🏠"}, {"content": "Rua A, 10"}]},
        {"pageNumber": 2, "lines": [{"content": "Total"}]},
        {"pageNumber": 3},
    ],
    "tables": [
        {
            "rowCount": 2,
            "columnCount": 2,
            "cells": [
                {"kind": "columnHeader", "rowIndex": 0, "columnIndex": 0, "columnSpan": 2, "content": "Valores"},
                {"rowIndex": 1, "columnIndex": 0, "content": "Aluguel"},
                {"rowIndex": 1, "columnIndex": 1, "content": "1.200,00"},
            ],
            "boundingRegions": _at(2),
        }
    ],
    "keyValuePairs": [
        {
            "key": {"content": "Locador:", "boundingRegions": _at(1)},
            "value": {"content": "Ana", "boundingRegions": _at(1)},
            "confidence": 0.93,
        },
        {"key": {"content": "CPF:", "boundingRegions": _at(1)}, "confidence": 0.4},
    ],
}

ROUTES = [(":analyze", analyze), ("/analyzeResults/", result)]

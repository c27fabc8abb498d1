"""What a browser needs for an update of a page. It measures, and runs when it is asked for: pytest -m bench."""

from __future__ import annotations

import json
import statistics

import pytest

from ..web.conftest import Open  # noqa: TID252 - the house is that of the API's own tests
from .conftest import Visit
from .test_console_batches import made, worked

# Both texts get twice their rows, with ids of their own: a page shows fifty.
MORPH = """async ([before, rounds]) => {
  const region = () => document.getElementById("tab");
  const headers = { Accept: "text/html", "HX-Request": "true", "HX-Target": "section#tab" };
  const fetched = async () => (await fetch(region().dataset.url, { headers, cache: "no-store" })).text();
  if (before === null) return fetched();
  const doubled = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const row of [...page.querySelectorAll("tr[data-row]")]) {
      const twin = row.cloneNode(true);
      for (const each of [twin, ...twin.querySelectorAll("[id]")]) each.id += "-twin";
      row.parentElement.append(twin);
    }
    return page.getElementById("tab").outerHTML;
  };
  const texts = [doubled(before), doubled(await fetched())];
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const began = performance.now();
    await htmx.swap({ text: texts[round % 2], target: region(), sourceElement: region(), swap: "outerMorph" });
    region().getBoundingClientRect();
    times.push(performance.now() - began);
  }
  return { times, rows: document.querySelectorAll("#tab tr[data-row]").length };
}"""


@pytest.mark.bench
def test_a_morph_of_a_hundred_rows(open_house: Open, visit: Visit, capsys: pytest.CaptureFixture[str]) -> None:
    house = open_house()
    id = made(house, "double", list(range(50)))
    page = visit(f"{house.url}/console/batches/{id}")
    before = page.evaluate(MORPH, [None, 0])
    worked(house)

    told = page.evaluate(MORPH, [before, 60])

    times = sorted(told["times"])
    figures = {"rows": told["rows"], "p50_ms": statistics.median(times), "p95_ms": times[int(len(times) * 0.95)]}
    with capsys.disabled():
        print(json.dumps({name: round(each, 1) for name, each in figures.items()}))  # noqa: T201 - what it is for
    assert told["rows"] == 100

"""A FastAPI application with a route of its own that queues jobs, and the site of Retoma under /engine.

    python examples/own_application.py [PORT]
    retoma worker --app examples/own_application.py:engine

    curl -X POST localhost:8000/letters -H 'Content-Type: application/json' -d '{"text": "Dear Ana"}'
    curl localhost:8000/letters/1

The site asks for the token that 'retoma token' prints; the application's own routes are the application's business.
"""

import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from retoma import Retoma, Run, pipeline
from retoma.web import site


class Letter(BaseModel):
    text: str


@pipeline("count-words")
async def count_words(letter: Letter, run: Run) -> int:
    return len(await run.step("split", letter.text.split))


engine = Retoma(pipelines=[count_words])
console = site(engine)
api = FastAPI(title="Letters", lifespan=console.router.lifespan_context)  # opens the engine, and closes it
api.mount("/engine", console)


@api.post("/letters", status_code=202)
async def post_letter(letter: Letter) -> dict[str, int]:
    job = await engine.enqueue(count_words, letter)
    return {"id": job.id}


@api.get("/letters/{id}")
async def get_letter(id: int) -> dict[str, str | int | None]:
    job = await engine.jobs.get(id)
    if job.state != "completed":
        return {"state": job.state, "words": None}
    words = await engine.jobs.output(count_words, id)
    return {"state": job.state, "words": words}


if __name__ == "__main__":
    uvicorn.run(api, port=int(sys.argv[1]) if sys.argv[1:] else 8000)

"""The retoma command. Nothing is imported here but Click: a command's own file is, when it is used."""

import os

import click

from retoma.cli.root import Root

_COMMANDS = {
    "Start here": {
        "demo": ("retoma.demo.cli:demo", "See a worker killed, a batch resumed, and nothing done again."),
        "up": ("retoma.cli.worker:up", "Database, worker and API in one command, until Ctrl-C."),
        "status": ("retoma.cli.status:status", "All on one screen: what is there, what runs, what to do next."),
        "doctor": ("retoma.cli.doctor:doctor", "Check the database, the schema and the workers."),
    },
    "Run": {
        "db": ("retoma.cli.db:db", "The tables: up, down, as SQL; the database's address, and psql in it."),
        "worker": ("retoma.cli.worker:worker", "Work on jobs until told to stop."),
        "serve": ("retoma.cli.serve:serve", "Serve the API over HTTP."),
        "watchdog": ("retoma.cli.watchdog:watchdog", "Look after jobs and batches where no worker does."),
        "enqueue": ("retoma.cli.worker:enqueue", "Queue one job."),
        "prune": ("retoma.cli.workers:prune", "Remove jobs that ended long ago."),
        "chaos": ("retoma.bench.chaos.cli:chaos", "Kill workers while they work, and count what was lost: nothing."),
        "bench": ("retoma.bench.cli:bench", "Measure this machine."),
        "accuracy": ("retoma.bench.evaluation.cli:accuracy", "Measure the offline providers."),
    },
    "Look and act": {
        "batch": ("retoma.cli.batch:batch", "Batches: watch, explain, resume, retry what failed, and more."),
        "top": ("retoma.cli.top:top", "The fleet, live: batches under way, queues, workers, rates and cost."),
        "job": ("retoma.cli.job:job", "Jobs: list, show, retry, cancel, restart, signal, export."),
        "operation": ("retoma.cli.operation:operation", "Actions on many jobs of any batch: run, list, show, cancel."),
        "errors": ("retoma.cli.operation:errors", "What failed lately in any batch, in groups."),
        "search": ("retoma.cli.operation:search", "Find a job or a batch by what you know of it."),
        "queue": ("retoma.cli.queue:queue", "Queues: list, show, pause, resume, weigh, limit a lane."),
        "schedule": (
            "retoma.cli.schedule:schedule",
            "Schedules: list, show, create, run, pause, resume, change, remove.",
        ),
        "review": ("retoma.cli.review:review", "Reviews: list, accept, correct, reject, undo, export."),
        "alert": ("retoma.cli.alert:alert", "Alerts: list, acknowledge."),
        "workers": ("retoma.cli.workers:workers", "Who works, and since when."),
        "key": ("retoma.cli.key:key", "API keys: create, list, rotate, revoke."),
        "user": ("retoma.cli.user:user", "People's accounts: add, list, change, lock, remove."),
        "session": ("retoma.cli.session:session", "Who is signed in with a browser: list, end."),
        "token": ("retoma.cli.session:token", "The token of a server without keys."),
        "audit": ("retoma.cli.audit:audit", "Who did what: list."),
        "webhook": ("retoma.cli.webhook:webhook", "Messages to an address of yours: add, test, list, replay."),
        "calls": ("retoma.cli.calls:calls", "Calls to providers: list, show, spend."),
        "prices": ("retoma.cli.calls:prices", "Prices: list, show, set."),
        "limits": ("retoma.cli.calls:limits", "What providers allow: list, set, close a breaker."),
        "verify": ("retoma.cli.verify:verify", "Check every promise of the tables; list what does not hold."),
        "metrics": ("retoma.cli.workers:metrics", "The seven figures of a worker."),
    },
    "Em português": {
        "travadas": ("retoma.cli.batch:travadas", "The batches that have stalled."),
        "retomar": ("retoma.cli.batch_act:resume", "The same as batch resume."),
        "reprocessar-erros": ("retoma.cli.batch_act:retry_failed", "The same as batch retry-failed."),
    },
}


@click.group(cls=Root, sections=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="retoma", message="retoma %(version)s")
@click.option("--debug", is_flag=True, expose_value=False, help="Show where an unexpected error came from.")
@click.option(
    "--api",
    metavar="URL",
    expose_value=False,
    help="Ask a server over HTTP, and no database (RETOMA_API_URL, RETOMA_API_KEY).",
)
@click.help_option("-h", "--help", help="Show this message and exit.")
def main() -> None:
    """Durable work over documents, on PostgreSQL alone.

    DATABASE_URL says which PostgreSQL to use. Without it a server is started in the folder .retoma, and shared by
    every command that is run beside it.
    """
    if os.environ.get("NO_COLOR"):
        click.get_current_context().color = False

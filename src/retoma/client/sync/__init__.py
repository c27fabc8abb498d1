"""The namespaces of the client without ``await``. Everything beside this file is made by tools/sync.py."""

from retoma.client.sync.batches import Batches
from retoma.client.sync.calls import Calls
from retoma.client.sync.jobs import Jobs
from retoma.client.sync.queues import Queues
from retoma.client.sync.reviews import Reviews
from retoma.client.sync.schedules import Schedules
from retoma.client.sync.system import System
from retoma.client.sync.workers import Workers

__all__ = ["Batches", "Calls", "Jobs", "Queues", "Reviews", "Schedules", "System", "Workers"]

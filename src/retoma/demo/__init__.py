"""The demo: a small real pipeline, a worker that is killed twice, and the count of what was done."""

"""Retoma inside other systems: worker loops on a Celery or Ray cluster, and checkpoints in other programs' tables."""

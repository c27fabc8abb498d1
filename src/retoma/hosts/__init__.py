"""Retoma as a guest: worker loops on a Celery or Ray cluster, and checkpoints in tables and tasks of others."""

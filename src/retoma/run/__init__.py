"""What a handler works with: pipelines, runs and their recorded steps."""

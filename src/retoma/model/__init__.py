"""The values of the domain: jobs, batches, calls, workers, endings, and the diagnosis of a stall. No I/O."""

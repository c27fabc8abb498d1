"""Values that everything speaks of: jobs, batches, calls, workers, endings, and the diagnosis of a stall. No I/O."""

"""What can be asked of the engine: generators that yield queries, one sequence for every door and driver."""

"""The worker: a supervisor, its executors, the attempts they make, and the watchdog's rounds."""

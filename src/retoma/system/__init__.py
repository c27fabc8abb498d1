"""The machine: settings from its environment, temporary and private files, signals, threads, process identity."""

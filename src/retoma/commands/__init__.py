"""What callers can ask of the engine: generators that yield queries, so that every entry point and driver
runs the same sequence.
"""

"""The tables of classification that came after those of the engine: examples, and refinements."""

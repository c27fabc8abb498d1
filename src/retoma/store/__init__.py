"""The engine's SQL, and the only folder that has any: one module per noun, one function per named block."""

"""Drawing as plain functions: a sight and a width in, lines out. No terminal, no clock, no state."""

"""From a window of a run to the verdict: what holds the training back. Pure functions over data; no clock, no I/O."""

"""A training loop on a simulated machine and GPU, with planted bottlenecks: physics, never a verdict typed in."""

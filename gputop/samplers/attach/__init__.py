"""Watching a process that has no publisher in it, by samples of its stacks. Everything found is said to be sampled."""

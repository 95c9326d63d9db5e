"""What the training process imports: the step clock, its hooks, and the thread that sends what they saw."""

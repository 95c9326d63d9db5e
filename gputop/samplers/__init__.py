"""What the machine is doing: GPU backends and the host, each in a child of its own, so that a driver may hang."""

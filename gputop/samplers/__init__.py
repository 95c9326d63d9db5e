"""What the machine is doing: GPU backends and the host, sampled in two children so that a hung driver hangs only its own."""

"""One file for each thing of PyTorch's that is hooked; each has `install(publisher)`, which returns how to undo it."""

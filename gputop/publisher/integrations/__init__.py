"""Callbacks for training frameworks, one file each, and notebooks: what no hook can see, the framework says."""

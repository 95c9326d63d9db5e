"""Recordings: a trace kept in one SQLite file, written while it happens and read back in any place."""

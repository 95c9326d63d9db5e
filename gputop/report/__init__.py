"""What was found, in words (text, plain) and in JSON (summary), for a view or for a whole trace (judged)."""

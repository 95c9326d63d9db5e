"""`python -m gputop`: the same as `gputop`."""

from gputop.cli import main

if __name__ == "__main__":
    main()

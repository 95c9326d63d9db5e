"""`python -m gputop`: the same as `gputop`."""

import os
import sys

if __name__ == "__main__":
    # Python puts the working folder first, and a training's may hold a platform.py, queue.py or pynvml.py of its own.
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in {os.getcwd()} - {here}]

    try:
        from gputop.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()

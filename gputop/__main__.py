"""`python -m gputop`: the same as `gputop`."""

import os
import sys

if __name__ == "__main__":
    # Python puts the working folder first, and a training's may hold a platform.py, queue.py or pynvml.py of its own.
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        unwanted = {os.getcwd()} - {here}
        sys.path[:] = [path for path in sys.path if os.path.abspath(path) not in unwanted]
    except OSError:  # the folder is gone, and nothing can lie in it
        sys.path[:] = [path for path in sys.path if os.path.isabs(path)]

    try:
        from gputop.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()

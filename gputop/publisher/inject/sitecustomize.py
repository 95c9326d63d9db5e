"""What `gputop run` puts first on PYTHONPATH: once a script has imported torch, gputop watches its training.

Runs in whatever Python the command starts, where gputop may be missing or old, so it needs nothing of gputop's but the
file beside its folder. It changes nothing else: another sitecustomize on the path runs as if this one were not there.
"""


def _next_sitecustomize() -> None:
    """Run the sitecustomize that would have run without this one."""
    import sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None or spec.origin == __file__:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _arm() -> None:
    """torch is there: watch, with the gputop of this environment. Never raises."""
    import os
    import sys

    try:
        from gputop.publisher.launch import arm_injected
    except ImportError:
        command = f"{sys.executable} -m pip install --upgrade gputop-live"
        if os.environ.get("GPUTOP", "") != "0":
            sys.stderr.write(f"gputop: not installed (or too old) in this Python; to see this run:  {command}\n")
        return
    except Exception as error:
        sys.stderr.write(f"gputop: can't watch this run: {error}\n")
        return
    arm_injected()


def _start() -> None:
    import os
    import sys
    from importlib.util import module_from_spec, spec_from_file_location

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != here]
    try:
        path = os.path.join(os.path.dirname(here), "importhook.py")
        spec = spec_from_file_location("_gputop_importhook", path)
        assert spec is not None
        assert spec.loader is not None
        hook = module_from_spec(spec)
        spec.loader.exec_module(hook)
        hook.when_imported("torch", _arm)
    except Exception as error:
        sys.stderr.write(f"gputop: can't watch this run: {error}\n")
    _next_sitecustomize()


_start()

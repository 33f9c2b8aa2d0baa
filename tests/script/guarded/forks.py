"""Runs scripts as `python script.py` does, each in a fork of one process that has imported their frameworks.

python forks.py MODULE,… < jobs (JSON); gives what each job printed, and its exit code. A job may name a hook of the
observer, which fails then: before it looks, or after.
"""

import atexit
import importlib
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

PLANTED = "planted"


def plant(name, when):
    """Have the hook fail."""
    guard = sys.modules["ray_worth_it_observe.guard"]
    hook = guard.hooks[name]
    look = hook.look

    def fail():
        Path(os.environ["TRAINING_OBSERVE"], "failed").touch()
        raise RuntimeError(PLANTED)

    def fails(*args, **more):
        if when == "before":
            fail()
        look(*args, **more)
        fail()

    def fails_around(*args, **more):
        if when == "before":
            fail()
        yield from look(*args, **more)
        fail()

    hook.look = fails_around if isinstance(hook, guard.Around) else fails


def run(job):
    """The exit code of a script in this process, as Python gives it."""
    sys.argv = job["command"]
    os.chdir(job["folder"])
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream)
    if job["hook"]:
        plant(job["hook"], job["when"])
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 (as Python shows it)
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def main():
    """Run all jobs, one after another."""
    for module in sys.argv[1].split(","):
        importlib.import_module(module)
    codes = []
    for job in json.load(sys.stdin):
        os.environ["TRAINING_OBSERVE"] = job["folder"]
        child = os.fork()
        if not child:
            os._exit(run(job))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(json.dumps(codes))


if __name__ == "__main__":
    main()

"""Runs a module as `python -m` does, in a network of its own from the start.

    python -m tests.script.adversaries.apart training.native --result …

An arm takes the lock of its machine, and ports, which are those of a network: two cases at a time then do not wait for
each other. Nothing of what an adversary does depends on the time that it takes.
"""

import runpy
import sys

from training.machine import isolation

if __name__ == "__main__":
    isolation.enter()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

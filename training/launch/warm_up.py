"""Reads once what every run reads when it starts, so that no arm's first run pays for it.

    python -m training.launch.warm_up WORKLOAD

After an installation Python compiles what it imports, and after a start of the machine everything comes from its disk.
"""

import sys
from importlib import import_module
from pathlib import Path

from training.contract.workload import named
from training.launch import environment


def main(name: str) -> None:
    """Import what the arms do, with the settings of a run, and read the programs that Ray starts."""
    workload = named(name)
    environment.prepare(workload, 1, 0, None)
    for module in (workload.body, "ray", *workload.imports):
        import_module(module)
    for program in Path(str(import_module("ray").__file__)).parent.glob("core/src/ray/*/*"):
        if program.is_file():
            program.read_bytes()


if __name__ == "__main__":
    main(*sys.argv[1:])

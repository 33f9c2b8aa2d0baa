"""Reads once what every run reads when it starts, so that no arm's first run pays for it.

    python -m training.launch.warm_up RECIPE

After an installation Python compiles what it imports, and after a start of the machine everything comes from its disk.
"""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from training.contract.workload import named, recipe_of
from training.launch import environment


def main(given: str) -> None:
    """Import what the arms do, with the settings of a run, and read the programs that Ray starts.

    `given`: the recipe, as JSON.
    """
    recipe = recipe_of(json.loads(given))
    workload = named(recipe.workload)
    if elsewhere := workload.warm_up(recipe):
        subprocess.run(elsewhere, env=environment.allowed(os.environ), check=False)
        return
    environment.prepare(workload, 1, 0, None)
    for module in (workload.body, "ray", *workload.imports):
        import_module(module)
    for program in Path(str(import_module("ray").__file__)).parent.glob("core/src/ray/*/*"):
        if program.is_file():
            program.read_bytes()


if __name__ == "__main__":
    main(*sys.argv[1:])

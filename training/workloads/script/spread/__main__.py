"""Commands around a plain script, in the user's Python: python spread COMMAND …

plan [--framework NAME] FILE script.py …
                                run some steps alone, and write which passes over which loaders are split
ranks N PLAN script.py …        run the script as N processes of this machine
member PLAN script.py …         run it as one rank, of which each is in a pod: TRAINING_CLUSTER says where all are
rank script.py …                run it as the one that TRAINING_SPREAD says
prove [--framework NAME] --workers N -- script.py …
                                prove that ranks do the work of the single process
port --workers N -- script.py …
                                print the smallest port of the script, if its weights are those of the single process
ray N CPUS PLAN script.py …     run the script in N workers of Ray's trainer
"""

import importlib
import importlib.util
import os
import sys

NAME = "ray_worth_it_spread"
"""Name of the package, which no script has for a module of its own."""


def load() -> None:
    """Import the folder of this file as the package NAME, and take it off the path on which scripts import modules."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != folder]
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None  # noqa: S101 (the file is there)
    assert spec.loader is not None  # noqa: S101
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    load()
    command = sys.argv.pop(1)
    module, function = {"prove": ("prove", "main"), "ray": ("under_ray", "main"), "port": ("ported", "main")}.get(
        command, ("commands", command)
    )
    sys.exit(getattr(importlib.import_module(f"{NAME}.{module}"), function)())

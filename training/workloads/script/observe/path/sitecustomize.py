"""Loads the observer before a script's first line; the only module in a folder that is put first on PYTHONPATH.

Python imports `sitecustomize` at each start, in children and in Ray's workers, too. The environment's own comes after.
"""

import importlib.machinery
import importlib.util
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "ray_worth_it_observe"
"""Name of the observer's package, which no script has for a module of its own."""


def load_observer() -> None:
    """Import the parent folder as the package `NAME`, and have it wait for the script to import frameworks."""
    folder = HERE.parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        return
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    importlib.import_module(f"{NAME}.hooks").install()


def load_own() -> None:
    """Load the `sitecustomize` that this process would have had."""
    elsewhere = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    load_observer()
except Exception:  # noqa: BLE001 (whatever it is, the script has to run)
    traceback.print_exc()
load_own()

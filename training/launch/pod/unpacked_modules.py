"""Starts a module of this project in a pod whose image this project did not build. Standard library only.

    python -P FOLDER/training/launch/pod/unpacked_modules.py MODULE ARGUMENTS…

FOLDER is where the project's modules were unpacked. They go before what the image itself names in PYTHONPATH.
"""

import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

RAYS_PACKAGES = "thirdparty_files"
"""Folder within Ray's package with the packages that Ray brings along."""


def main(arguments: list[str]) -> None:
    """Run the module that the first argument names, in this process: signals reach it, and its exit code counts."""
    project = str(Path(__file__).resolve().parents[3])
    sys.path.insert(0, project)
    os.environ["PYTHONPATH"] = os.pathsep.join([project, *filter(None, [os.environ.get("PYTHONPATH")])])
    find_psutil()
    module, *sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def find_psutil() -> None:
    """Add Ray's own psutil to the path of this process and its children, if none is installed."""
    if find_spec("psutil"):
        return
    ray_spec = find_spec("ray")
    for folder in (ray_spec.submodule_search_locations if ray_spec else None) or ():
        path = str(Path(folder, RAYS_PACKAGES))
        sys.path.append(path)
        os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), path])


def image_path() -> list[str]:
    """Return the folders in the image's own PYTHONPATH, without this project's folder and those added for it."""
    project = Path(__file__).resolve().parents[3]
    folders = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return [str(each) for each in folders if each.name != RAYS_PACKAGES and each.resolve() != project]


if __name__ == "__main__":
    main(sys.argv[1:])

"""Compiles and reads once what every run reads when it starts, so that no arm's first run pays for it.

    python -m training.launch.warm_up RECIPE [FOLDER]

After a start of the machine everything comes from its disk. An installer need not compile, and `pulumi install` does
not: Python would do it within the start-up of whichever arm imports a module first, of Ray's some 500 that no other
has. Where Python may not write bytecode (PYTHONDONTWRITEBYTECODE) each process would do it again. What takes long is
said in the folder's progress.
"""

import compileall
import hashlib
import json
import os
import subprocess
import sys
import sysconfig
from contextlib import suppress
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path

from training.contract.progress import Progress
from training.contract.provenance import PROJECT
from training.contract.workload import named, recipe_of
from training.launch import environment

STAMP = ".compiled"
SAID = "compiles the modules of the environment, once after an installation"


def main(recipe_text: str, folder: str = "") -> None:
    """Compile and import the modules that the arms use, as a run with these settings does, and read the programs that
    Ray starts.

    `recipe_text`: the recipe, as JSON. Of a script's own environment, only what the script imports is imported once.
    """
    recipe = recipe_of(json.loads(recipe_text))
    workload = named(recipe.workload)
    elsewhere = workload.warm_up(recipe)
    if not elsewhere or elsewhere[0] == sys.executable:
        progress = Progress(Path(folder) if folder else None)
        compile_once(Path(sysconfig.get_path("purelib")), Path(sys.prefix) / STAMP, progress)
        compileall.compile_dir(PROJECT / "training", quiet=2)  # may be edited at any time
    if elsewhere:
        subprocess.run(elsewhere, env=environment.allowed(os.environ), check=False)
        return
    environment.prepare(workload, 1, 0, None)
    for module in (workload.body, "ray", *workload.imports):
        import_module(module)
    for program in Path(str(import_module("ray").__file__)).parent.glob("core/src/ray/*/*"):
        if program.is_file():
            program.read_bytes()


def compile_once(packages: Path, stamp: Path, progress: Progress) -> None:
    """Compile the modules in a folder of packages, unless the stamp file has the hash of exactly these packages, or the
    installer has compiled them all, as `rwi` has uv do."""
    digest = _digest(packages)
    with suppress(OSError):
        if stamp.read_text(encoding="utf-8") == digest:
            return
    if not all(Path(cache_from_source(str(module))).is_file() for module in packages.rglob("*.py")):
        progress.write("note", text=SAID)
        # Some are no Python of this version, as templates are: nobody imports those
        compileall.compile_dir(packages, quiet=2, workers=0)
    with suppress(OSError):  # another user's environment: the next update checks again
        stamp.write_text(digest, encoding="utf-8")


def _digest(packages: Path) -> str:
    """Return a hash of the installed packages with their versions, and of this Python."""
    installed = sorted(path.name for path in packages.glob("*.dist-info"))
    return hashlib.sha256("\n".join([sys.version, *installed]).encode()).hexdigest()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Reads once what every run reads when it starts, so that no arm's first run pays for it.

    python -m training.launch.warm_up

After an installation Python compiles what it imports, and after a start of the machine everything comes from its disk.
"""

from importlib import import_module
from pathlib import Path

from training.launch import environment

MODULES = ("training.workloads.cnn.train", "ray", "ray.train.tensorflow", "sklearn.datasets")
"""What arms import: with these they are all there, but for the small ones."""


def main() -> None:
    """Import, with the settings of a run, and read the programs that Ray starts."""
    environment.prepare(1, 0, None)
    for name in MODULES:
        import_module(name)
    for program in Path(str(import_module("ray").__file__)).parent.glob("core/src/ray/*/*"):
        if program.is_file():
            program.read_bytes()


if __name__ == "__main__":
    main()

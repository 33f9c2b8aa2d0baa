"""An arm as a job of a Ray cluster that exists: the arm's entry point as in a pod, in the folder that Ray unpacked.

    python -P -m training.launch.ray.job_entry ARM FLAGS…

Adds what such a node lacks: a folder for the result, the package psutil where nobody installed it (Ray brings its own),
and the secret variables, which came as a file because Ray logs and shows those of a job.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

from training.launch.environment import RAY_JOB, RESULTS, SECRET_FILE, SECRET_NAMES
from training.launch.pod.unpacked_modules import find_psutil

FOLDER = "results"
"""Folder of the result, in the job's own folder."""
SECRET = ".ray-worth-it-secret.json"  # noqa: S105 (a file's name)
"""The file with secret variables, in the job's own folder."""


def main(arguments: list[str]) -> None:
    """Run the arm, with the folder and the variables that a job on a node needs."""
    Path(FOLDER).mkdir(exist_ok=True)
    os.environ |= {RAY_JOB: "1", RESULTS: str(Path(FOLDER).absolute())}
    tell_secret(Path(SECRET).absolute())
    find_psutil()
    import_module("training.launch.pod.run").main(arguments)


def tell_secret(file: Path) -> None:
    """Set the file's variables in this environment, and tell child processes its name; do nothing without a file."""
    if file.exists():
        secret = json.loads(file.read_text(encoding="utf-8"))
        os.environ |= {**secret, SECRET_NAMES: ",".join(secret), SECRET_FILE: str(file)}


if __name__ == "__main__":
    main(sys.argv[1:])

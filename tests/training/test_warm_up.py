"""What is done before the first run of an update, for real."""

import json
import subprocess
import sys
from pathlib import Path

from tests.limits import LONGEST_SECONDS

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, runpy, sys
sys.argv = ["warm_up", "{}"]
runpy.run_module("training.launch.warm_up", run_name="__main__")
print("read", json.dumps(sorted(sys.modules)))
"""


def test_warming_up_reads_what_the_arms_import() -> None:
    """TensorFlow with its Keras, and Ray with the trainer of the ray arm: nothing is left to one arm."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
        check=True,
    )

    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("read ")]
    read = set(json.loads(line.removeprefix("read ")))
    assert {
        "tensorflow",
        "ray",
        "ray.train.tensorflow",
        "training.workloads.cnn.train",
        "training.workloads.cnn.loop",
    } <= read
    assert [name for name in read if name.split(".")[0] == "tf_keras"]

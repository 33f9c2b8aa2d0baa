"""The ray arm: Ray as its documentation says to use it, by public names and documented settings alone.

Which settings those are, and from which page: docs/adr/0014-ray-as-documented.md.
"""

from typing import Any

from training.launch import entry, ray_driver

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a run tells nobody; it reaches nobody either
    "RAY_COLOR_PREFIX": "0",  # escape sequences in logs that are read as files
}
"""Environment of the driver, before Ray starts."""


def make_trainer(**arguments: Any) -> Any:
    """The trainer of Ray's guide for TensorFlow. Importing it imports TensorFlow, in the driver too."""
    from ray.train.tensorflow import TensorflowTrainer

    return TensorflowTrainer(**arguments)


SET_UP = ray_driver.SetUp(arm="ray", settings=SETTINGS, make_trainer=make_trainer)

if __name__ == "__main__":
    asked = entry.begin("ray", __doc__)
    entry.run(lambda: ray_driver.run_on_this_machine(asked, SET_UP), asked.result)

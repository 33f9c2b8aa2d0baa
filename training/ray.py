"""The ray arm: Ray as its documentation says to use it, by public names and documented settings alone.

Which settings those are, and from which page: docs/adr/0014-ray-as-documented.md.
"""

from training.launch.ray import driver

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # a run tells nobody; it reaches nobody either
    "RAY_COLOR_PREFIX": "0",  # escape sequences in logs that are read as files
}
"""Environment of the driver, before Ray starts."""

if __name__ == "__main__":
    driver.main("ray", __doc__, SETTINGS)

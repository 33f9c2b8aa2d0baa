"""The tuned arm: Ray Train with everything left out that a run on this machine does not need. See docs/adr/0007."""

from training.launch.ray import driver
from training.launch.tuned_ray import SET_UP

if __name__ == "__main__":
    driver.main("tuned", __doc__, SET_UP)

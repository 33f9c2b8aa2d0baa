"""The arm `raystart` of a script that nothing distributes: Ray's start, with workers that do nothing."""

from training.launch.ray import driver

if __name__ == "__main__":
    driver.main("raystart", __doc__, {})

"""The arm `raydata` of a script: as the arm `ray`, with the arguments by which the script reads through Ray Data."""

from training.launch.ray import driver

if __name__ == "__main__":
    driver.main("raydata", __doc__, {})

"""The baseline arm: one process with the CPUs of one worker, and no strategy."""

from training.launch import alone

if __name__ == "__main__":
    alone.main("baseline", __doc__)

"""The wide arm: one process with the CPUs of all workers, and no strategy."""

from training.launch import alone

if __name__ == "__main__":
    alone.main("wide", __doc__)

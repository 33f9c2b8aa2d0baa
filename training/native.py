"""The native arm: one process a worker under the framework's own distribution, without Ray."""

from training.launch import peers

if __name__ == "__main__":
    peers.main("native", __doc__)

"""Downloads what a data set needs, in a process that still reaches the network: a run on this machine does not.

python -m training.workloads.cnn.fetch NAME DATASET_PATH
"""

import sys

from training.workloads.cnn.registry import DATASETS
from training.workloads.cnn.shapes import Source


def main(name: str, path: str) -> None:
    """Download the data set `name`; if that fails, end the process with a message that says what to do."""
    fetch = DATASETS[name].fetch
    try:
        if fetch:
            fetch(Source(path=path))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])

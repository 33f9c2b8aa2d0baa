"""What one process of the script is to be, as it is given in a variable that the script never sees."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass

VARIABLE = "TRAINING_SPREAD"
SEED = 20260119
"""Seed of the processes, which the script's own replaces."""
SHARES = ("torch", "tensorflow")
"""Frameworks that listen with SO_REUSEADDR, so also where a socket is bound that does not listen; on Linux alone."""
LOOKED_AT = (1, 2, 4, 8)
"""Steps whose weights are kept."""


@dataclass
class Settings:
    """One process of the script."""

    framework: str = "torch"
    """Whose mechanism distributes it: a key of `process.AROUND`."""
    rank: int = 0
    world: int = 1
    store: str = ""
    """How ranks find each other: a file's path, or host:port of rank 0."""
    plan: str = ""
    """Path of the plan that a rank follows."""
    out: str = ""
    """Folder for what is recorded; "" where nothing is."""
    trace: str = ""
    """Folder for the last exchanges of each rank; `out` where that is given."""
    private: str = ""
    """Folder for the files that this process writes; "" where it writes its files where the script says."""
    steps: int = 0
    """Optimizer steps after which it ends; 0 where the script runs as long as it wants."""
    seed: int = SEED
    watches: bool = False
    """Whether operations are looked at: where rows go, and what is computed of them."""
    double: bool = False
    """Whether all floating numbers have 64 bits."""
    reverse: bool = False
    """Whether the rows of each batch come in reverse order."""
    even: int = 1
    """Rows of a batch that is split are a multiple of it: what is left is left out."""
    keyed: bool = False
    """Whether chance belongs to the row that it is drawn for, whichever rank computes it."""
    alike: bool = False
    """Whether chance is then one and the same for every row of a batch."""
    statistics: bool = True
    """Whether batch normalisation uses the batch's own statistics, and trees' bins are those of a rank's rows."""
    mean: bool = False
    """Whether ranks of tf-keras exchange the mean of their gradients instead of the sum; and trees of LightGBM begin at
    no mean."""
    code: str = ""
    """Path of the text that is run as the script; "" for the script's own."""
    fitted_to: str = ""
    """Folder of a single process' record: gradients are fitted to those there, and then replaced by them."""

    def text(self) -> str:
        """Return the settings as the value of VARIABLE."""
        return json.dumps(asdict(self))


def taken() -> Settings:
    """Return what the variable says, which is removed."""
    return Settings(**json.loads(os.environ.pop(VARIABLE)))


def addresses(framework: str, count: int = 1) -> str:
    """Return free addresses of this machine, divided by commas.

    Those of a framework in SHARES stay bound until this process ends: a script listens seconds later, and a port that
    nobody has bound may by then be that of another program's connection.
    """
    listeners = [socket.socket() for _ in range(count)]
    for listener in listeners:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        if framework in SHARES and sys.platform.startswith("linux"):
            listener.detach()
        else:
            listener.close()
    return ",".join(f"127.0.0.1:{port}" for port in ports)

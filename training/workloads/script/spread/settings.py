"""What one process of the script is to be, as it is given in a variable that the script never sees."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass

VARIABLE = "TRAINING_SPREAD"
SEED = 20260119
"""Seed of each process; a seed that the script sets replaces it."""
SHARES = ("torch", "tensorflow")
"""Frameworks that listen with SO_REUSEADDR, and so can listen on a port that another socket has bound without
listening; only on Linux."""
LOOKED_AT = (1, 2, 4, 8)
"""Steps whose weights are kept."""


@dataclass
class Settings:
    """One process of the script."""

    framework: str = "torch"
    """The framework whose changes make the script run as ranks: a key of `process.AROUND`."""
    rank: int = 0
    world: int = 1
    store: str = ""
    """How ranks find each other: the path of a file, the address host:port of rank 0, or the addresses of all ranks
    separated by commas."""
    plan: str = ""
    """Path of the plan that a rank follows."""
    out: str = ""
    """Folder for the records of the proof; "" if nothing is recorded."""
    trace: str = ""
    """Folder for the last exchanges of each rank; if `out` is set, that folder is used instead."""
    private: str = ""
    """Folder into which the files that this process writes are redirected; "" if they are not redirected."""
    steps: int = 0
    """Optimizer steps after which the process ends; 0 if the script runs to its own end."""
    seed: int = SEED
    watches: bool = False
    """Whether the operations of the script are recorded: which batches feed them, and what is computed."""
    double: bool = False
    """Whether all floating numbers have 64 bits."""
    reverse: bool = False
    """Whether the rows of each batch come in reverse order."""
    even: int = 1
    """The number of rows in a split batch is a multiple of this; the remaining rows are left out."""
    keyed: bool = False
    """Whether random numbers belong to the row for which they are drawn, whichever rank computes the row."""
    alike: bool = False
    """Whether these random numbers are the same for every row of a batch."""
    statistics: bool = True
    """Whether batch normalisation uses the statistics of the batch, and trees use bins made from a rank's rows."""
    mean: bool = False
    """Whether ranks of tf-keras exchange the mean of their gradients instead of the sum, and LightGBM's trees do not
    start from the mean (`boost_from_average`)."""
    code: str = ""
    """Path of a file whose code is run in place of the script's; "" for the script's own."""
    fitted_to: str = ""
    """Folder with the record of a single process: the ranks' gradients are fitted to the gradients there, and then
    replaced by them."""

    def text(self) -> str:
        """Return the settings as the value of VARIABLE."""
        return json.dumps(asdict(self))


def taken() -> Settings:
    """Return the settings in the environment variable VARIABLE, and remove the variable."""
    return Settings(**json.loads(os.environ.pop(VARIABLE)))


def addresses(framework: str, count: int = 1) -> str:
    """Return free addresses of this machine, separated by commas. For a framework in SHARES the ports stay bound until
    this process ends: a script listens only seconds later, and another program's connection might take a port that
    nobody has bound."""
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

"""One run of one arm of a script: its command as it stands, observed, and what came of it as a result.

The command is the user's, and so are its processes; what they print goes to this run's log.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from training.contract import progress, provenance
from training.contract.arms import NATIVE
from training.contract.progress import Progress
from training.contract.result import TrainingResult
from training.launch import observed
from training.launch.entry import Request
from training.launch.environment import SECRET, short_folder
from training.launch.observed import MOST_PRINTED
from training.launch.usage import Usage
from training.machine.ports import held_ports
from training.workloads.script import commands, observations, summary
from training.workloads.script.asked import asked, why_not
from training.workloads.script.environment import measured_into, observed_by, variables_of
from training.workloads.script.recipe import ScriptRecipe, variables


class ArmError(ValueError):
    """An arm that ended badly; the message says how, and its output is above it."""


def launch(request: Request, arm: str) -> TrainingResult:
    """Run the arm and give its result. Raises ScriptError, PythonError and ArmError."""
    recipe = request.recipe
    assert isinstance(recipe, ScriptRecipe)  # noqa: S101 (the workload's own)
    secret: dict[str, str] = json.loads(os.environ.pop(SECRET, "{}"))
    found, folder, host = asked(recipe), request.result.parent, provenance.host()
    own, storage = folder / "observed", folder / "storage"
    if reason := why_not(recipe, arm):
        raise ArmError(f"a script has no arm {arm} here: {reason}")
    for each in (own, storage):
        each.mkdir(mode=0o700, exist_ok=True)
    with held_ports(1) as (port,):
        command = found.arms({"storage": str(storage)}, port)[arm]
    Progress(folder).write("note", text=str(command))
    print(f"in {commands.folder(found.script)}: {command}", flush=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=short_folder()) as ray_folder:
        given = {**variables(recipe.environment), **secret}
        environment = variables_of(command, given, Path(ray_folder)) | observed_by(own, recipe.measure_steps)
        epochs = recipe.epochs if "{epochs}" in recipe.script_arguments else 0
        environment |= measured_into(folder / progress.NAME, epochs=epochs, probe=arm == NATIVE.name)
        printed, usage = _Printed(secret), Usage()
        end = observed.run(
            command.command, str(commands.folder(found.script)), environment, command.cpus, printed.pass_on
        )
    shutil.rmtree(storage, ignore_errors=True)
    _refuse_failure(end, printed, arm)
    seen = tuple(observations.read(own))
    return summary.result(summary.Made(found, command, end, seen, host, usage.throttled()))


def _refuse_failure(end: observed.End, printed: "_Printed", arm: str) -> None:
    if printed.count > MOST_PRINTED:
        raise ArmError(
            f"it printed more than {MOST_PRINTED // 2**20} MiB and was ended: a measurement would time its printing"
        )
    if end.processes > observed.MOST_PROCESSES:
        raise ArmError(f"it started more than {observed.MOST_PROCESSES} processes, and was ended")
    if end.code:
        how = f"exit code {end.code}" if end.code > 0 else f"signal {-end.code}"
        raise ArmError(
            f"the script ended with {how} in the arm {arm}; its last lines are above. `make try` with the same script "
            "runs some steps of every arm and says what usually helps"
        )


class _Printed:
    """Passes on what a script prints, without the values of secret variables, until it is too much."""

    def __init__(self, secret: Mapping[str, str]) -> None:
        self.count = 0
        self._secret = sorted((value.encode() for value in secret.values() if value), key=len, reverse=True)

    def pass_on(self, out: IO[bytes]) -> bool:
        """To this process's own output, line by line; false when it is too much."""
        for line in out:
            self.count += len(line)
            if self.count > MOST_PRINTED:
                return False
            for value in self._secret:
                line = line.replace(value, b"[secret]")  # noqa: PLW2901 (one after another)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        return True

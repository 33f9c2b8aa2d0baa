"""The common part of the entry points: the recipe as flags, a process that trains, and a result written whole.

How an arm's processes are started is not in here.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from training.contract import provenance, workload
from training.contract.arms import ARMS
from training.contract.clock import Phases, Stamp, process_start
from training.contract.process import Process
from training.contract.progress import NAME, Progress
from training.contract.recipe import WORKLOADS, Recipe, kebab
from training.contract.result import MACHINE, TRAINING_WAIT, TrainingResult
from training.contract.workload import Workload
from training.launch import environment
from training.launch.environment import RAY_JOB
from training.launch.usage import container_cpu, cpu_seconds
from training.machine import isolation, machine_lock

STARTED = "TRAINING_STARTED"
"""Environment variable by which a launcher passes its own start time on to the processes that it starts."""
POD = "TRAINING_POD"
"""Environment variable that is set in a pod, whose specification alone decides which variables a process has."""
OF_POD = "a pod, or a job on a node, is not told whose the CPU time of its node is"
NOBODY_LOOKED = "what others take of this machine is counted for the runs of a stack"
NOT_COUNTED = "no step was seen, or the system does not count how long a process waits for a CPU"
NO_PRESSURE = "the pod's cgroup does not count it: it is of version 1, or the kernel's PSI is off"
"""Reasons why a result does not tell how much CPU time other programs took, or how long ranks waited for a CPU."""


@dataclass(frozen=True)
class Request:
    """The command line of an entry point."""

    recipe: Recipe
    result: Path
    dataset_path: str
    storage: str
    """Address of this run's folder for files that outlive the run; "" if it has no such folder."""
    bind_cpus: bool
    address: str
    dashboard: bool
    started: Stamp
    phases: Phases

    @property
    def workload(self) -> Workload:
        """Return the workload of the recipe."""
        return workload.named(self.recipe.workload)


def begin(arm: str, doc: str | None) -> Request:
    """Parse the command line of `arm`, return it, and remove the variables that a run may not have from this process's
    environment.

    If the workload has a launcher of its own, run that and end the process afterwards.
    """
    request = parse(arm, doc)
    if POD not in os.environ:
        environment.keep_allowed(request.storage)
    if request.workload.launcher:
        launch = import_module(request.workload.launcher).launch
        run(lambda: launch(on_this_machine(request), arm), request.result)
        sys.exit(0)
    return request


def parse(arm: str, doc: str | None, arguments: list[str] | None = None) -> Request:
    """Return the parsed command line of `arm`, or end the process with a message that says what is allowed."""
    started = _started()
    parser = argparse.ArgumentParser(
        prog=f"python -m training.{arm}", description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--result", type=Path, required=True, help="file to write; progress goes beside it")
    parser.add_argument("--dataset-path", default="", help="where its files are: a folder, s3:// or gs://")
    parser.add_argument("--storage", default="", help="folder or address, of this run alone, for what outlives it")
    parser.add_argument(
        "--no-bind-cpus",
        action="store_true",
        help="in a pod: leave CPU affinity, the machine's lock and network alone",
    )
    if ARMS[arm].start == "ray":
        parser.add_argument("--address", default="", help="address of a running Ray cluster; empty: start one here")
        parser.add_argument("--dashboard", action="store_true", help="serve Ray's dashboard while the run lasts")
    kind = _workload(arguments).recipe
    for field in kind.settings().values():
        rule = field.metadata["rule"]
        parser.add_argument(
            kebab(field.name), type=typed(rule), default=field.default, metavar="VALUE",
            help=f"{field.metadata['help']}; {rule.allowed}",
        )  # fmt: skip
    values = vars(parser.parse_args(arguments))
    recipe = kind(**{field.name: values[field.name] for field in kind.settings().values()})
    if refused := recipe.why_not(ARMS[arm].processes(recipe)):
        parser.error(refused)
    if values["result"].is_dir():
        parser.error(
            f"--result {values['result']} is a folder: name a file in it, as {values['result'] / 'result.json'}"
        )
    if recipe.recovery().checkpoints_kept and not values["storage"]:
        parser.error("checkpoints need --storage: a folder or an address, of this run alone")
    data = values["dataset_path"]
    if data and not environment.is_remote(data) and not Path(data).is_dir():
        parser.error(f"--dataset-path {data}: there is no such folder; leave the flag out to download")
    phases = Phases()
    phases.add("process", started.seconds_until(Stamp.now()))
    return Request(
        recipe=recipe,
        result=values["result"].absolute(),
        dataset_path=values["dataset_path"],
        storage=_address(values["storage"]),
        bind_cpus=not values["no_bind_cpus"],
        address=values.get("address", ""),
        dashboard=values.get("dashboard", False),
        started=started,
        phases=phases,
    )


def run(make: Callable[[], TrainingResult | None], path: Path) -> None:
    """Call `make` and write its result to `path`; print a ValueError or OSError without traceback, and exit with 1."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"error: the folder of --result {path} can't be made ({error}): name one that you may write to")
    try:
        result = make()
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    try:
        if result:
            with_reasons(result).write(path)
    except OSError as error:
        sys.exit(f"error: the result can't be written ({error}): make room in {path.parent}, and run it again")


def with_reasons(result: TrainingResult) -> TrainingResult:
    """Return the result with reasons, if known here, why it does not tell the CPU time that others took."""
    in_pod, waits = POD in os.environ, [worker.training_wait for worker in result.workers]
    reasons = {MACHINE: OF_POD if in_pod else NOBODY_LOOKED}
    if None in waits:
        reasons[TRAINING_WAIT] = NOT_COUNTED
    elif in_pod and any(wait and wait.pressure_seconds is None for wait in waits):
        reasons[f"{TRAINING_WAIT}.pressureSeconds"] = NO_PRESSURE
    return replace(result, reasons=reasons | result.reasons)


def on_this_machine(request: Request) -> Request:
    """Wait until this machine is free, prepare it for the run, and return the request with a start later by that time.

    From now on the run has this machine and a network to itself. Waiting for another measurement and downloading data
    may take minutes, and are no part of the run. In a pod, and with a Ray cluster elsewhere, nothing is done. Call it
    before any thread is started. Raises OSError.
    """
    if not request.bind_cpus or request.address:
        return request
    began = time.monotonic()
    request.result.parent.mkdir(parents=True, exist_ok=True)
    machine_lock.hold(lambda text: print(text, file=sys.stderr, flush=True))
    if fetch := request.workload.fetch(request.recipe, request.dataset_path):
        fetched = subprocess.run([sys.executable, *fetch], cwd=provenance.PROJECT, check=False)
        if fetched.returncode:
            sys.exit(fetched.returncode)
    environment.end_downloading(request.storage)
    waited = time.monotonic() - began
    if reason := _enter_own_network(request.storage):
        text = f"without a firewall other machines reach this run's ports, which ask for no password: {reason}"
        Progress(request.result.parent).write("note", text=text)
        print(text, file=sys.stderr, flush=True)
    return replace(request, started=request.started.later(waited))


def _enter_own_network(storage: str) -> str | None:
    """Give this run a network of its own; return the reason if it can't have one, else None."""
    return f"it keeps what outlives it in {storage}" if environment.is_remote(storage) else isolation.enter()


def take_part(request: Request, arm: str, rank: int = 0, world: int = 1, **more: Any) -> TrainingResult | None:
    """Train as rank `rank` of `world`: set CPUs and environment first, then import the framework.

    `more`: fields of Process that only this arm has.
    """
    environment.defer_garbage_collection()
    read = container_cpu_at_start(request)
    if request.address and rank == 0:
        _begin_folder(request.result.parent)
    host, cpus = provenance.host(), provenance.allowed_cpus() if request.bind_cpus else None
    workload = request.workload
    bound = environment.prepare(workload, ARMS[arm].compute_threads(request.recipe), rank, cpus)
    with request.phases.measure("provenance"):
        software = provenance.software(arm, workload, environment.steering(os.environ))
    with request.phases.measure(workload.framework.lower()):
        body = import_module(workload.body)
    process = Process(
        arm=arm,
        rank=rank,
        world=world,
        host=host,
        software=software,
        bound=bound,
        started=request.started,
        phases=request.phases,
        dataset_path=request.dataset_path,
        storage=request.storage,
        folder=request.result.parent,
        container_cpu=read,
        **more,
    )
    result: TrainingResult | None = body.train(request.recipe, process)
    return result


def _begin_folder(folder: Path) -> None:
    """Create the folder of rank 0 on a node of a Ray cluster, without the progress of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).unlink(missing_ok=True)


def container_cpu_at_start(request: Request) -> list[float] | None:
    """Return a reading of this container's CPU time without that of this process; None outside of pods, and in a Ray
    job, whose node other processes share."""
    return None if request.bind_cpus or RAY_JOB in os.environ else container_cpu(less=cpu_seconds())


def pass_on_start(started: Stamp) -> dict[str, str]:
    """Return the environment variable by which a child process learns when the run started."""
    return {STARTED: f"{started.monotonic!r},{started.wall!r},{started.boot}"}


def _workload(arguments: list[str] | None) -> Workload:
    """Return the workload that the command line names; the workload decides which other flags there are."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--workload", default=WORKLOADS[0])
    name = parser.parse_known_args(arguments)[0].workload
    return workload.named(name if name in WORKLOADS else WORKLOADS[0])  # the whole parser refuses an unknown one


def _address(text: str) -> str:
    """Return the address of storage, with a relative path of a folder made absolute."""
    return text if not text or "://" in text else str(Path(text).absolute())


def _started() -> Stamp:
    if STARTED in os.environ:
        monotonic, wall, boot = os.environ[STARTED].split(",")
        return Stamp(float(monotonic), float(wall), boot)
    return process_start()


def typed(rule: Any) -> Callable[[str], Any]:
    """Return the function that reads a flag's text by its setting's rule; it raises ArgumentTypeError."""

    def parse_flag(text: str) -> Any:
        try:
            return rule.parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not allowed; allowed is {rule.allowed}") from None

    return parse_flag

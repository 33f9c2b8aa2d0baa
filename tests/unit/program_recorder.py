"""Runs the real program for a stack under a recording monitor, in its own process: Pulumi keeps its state in globals.

    python -m tests.unit.program_recorder local [key=value…]

prints what it would declare and export, as JSON. Nothing is made: every resource gets its inputs as outputs, and every
run a made-up result.
"""

import asyncio
import json
import os
import runpy
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pulumi
import yaml
from pulumi.runtime import mocks, stack

from infra.places.cluster import chart, helm_release, kube, leftover_jobs
from infra.places.kubernetes import inspection, kubeconfig
from infra.places.minikube import command as minikube
from tests.unit.results import make_result
from training.contract import provenance
from training.contract.recipe import canonical
from training.machine import machine_lock
from training.workloads.cnn.recipe import CnnRecipe

ROOT = Path(__file__).resolve().parents[2]
CORES, MEMORY_BYTES = 64, 2**38
"""A machine that every stack's settings fit on."""


class FakeChart(chart.Chart):
    """A chart that needs no repository, with one CRD."""

    def crds(self) -> list[dict[str, Any]]:
        """Its name is all that is asked of it."""
        return [{"metadata": {"name": "rayclusters.ray.io"}}]


def fake_chart(source: chart.Source, cache: Path = Path()) -> chart.Chart:
    """In place of `infra.places.cluster.chart.find`."""
    return FakeChart(cache / "kuberay-operator.tgz", source.version)


class Recorder(mocks.Mocks):
    """Keeps each resource's inputs by name, and those of Kubernetes objects once more: components share their names."""

    def __init__(self) -> None:
        self.inputs: dict[str, dict[str, Any]] = {}
        self.objects: dict[str, dict[str, Any]] = {}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        """No function of a provider is called by this program."""
        raise NotImplementedError(args.token)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Its inputs are its outputs; a run has a result too."""
        self.inputs[args.name] = args.inputs
        if "kind" in args.inputs:
            self.objects[f"{args.inputs['kind']} {args.name}"] = args.inputs
        if args.typ.startswith("pulumi-python:dynamic/") and "recipe" in args.inputs:
            return f"{args.name}-id", args.inputs | {"result": result_of(args.inputs)}
        return f"{args.name}-id", args.inputs


class Monitor(mocks.MockMonitor):
    """Keeps, by name, after which others a resource is made, and whether its deletion deletes anything."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.after: dict[str, list[str]] = {}
        self.retained: list[str] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  (the name is Pulumi's)
        """Called for each resource."""
        self.after[request.name] = sorted(urn.rpartition("::")[2] for urn in request.dependencies)
        if request.retainOnDelete:
            self.retained.append(request.name)
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


def result_of(inputs: dict[str, Any]) -> str:
    """A summary that agrees with what the run was asked for."""
    repeat = int(inputs["name"].rpartition("-")[2])
    recipe = CnnRecipe.from_dict(json.loads(inputs["recipe"]))
    made = make_result(inputs["arm"], repeat, replace(recipe, seed=recipe.seed - repeat + 1))
    return canonical(made.summary(f"runs/{inputs['name']}/result.json", "0" * 64))


def config_of(name: str, changes: dict[str, str]) -> dict[str, str]:
    """What the engine passes for a stack: Pulumi.yaml's defaults, its file's values, and changes."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    defaults = {key: entry["default"] for key, entry in project["config"].items() if isinstance(entry, dict)}
    values = yaml.safe_load((ROOT / f"stacks/Pulumi.{name}.yaml").read_text())["config"]
    given = defaults | {key.rpartition(":")[2]: value for key, value in values.items()} | changes
    return {f"{project['name']}:{key}": str(value) for key, value in given.items()}


def record(name: str, changes: dict[str, str]) -> dict[str, Any]:
    """The URNs that stack `name` declares, what else is known of each by its name, and the exports' values."""
    config = config_of(name, changes)
    os.environ["PULUMI_CONFIG"] = json.dumps(config)
    pulumi.runtime.set_all_config(config)
    recorder = Recorder()
    monitor = Monitor(recorder)
    exports: dict[str, Any] = {}
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    mocks.set_mocks(recorder, project="ray-worth-it", stack=name, preview=False, monitor=monitor)
    pulumi.export = partial(keep, exports)
    loop.run_until_complete(stack.run_pulumi_func(run_program))
    loop.close()
    return {
        "urns": sorted(monitor.resources),
        "inputs": recorder.inputs,
        "objects": recorder.objects,
        "after": monitor.after,
        "retained": monitor.retained,
        "exports": exports,
    }


async def run_program() -> None:
    """The program as the language host runs it."""
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")


def keep(exports: dict[str, Any], name: str, value: Any) -> None:
    """Note the export's value when it is known."""
    pulumi.Output.from_input(value).apply(lambda known: exports.__setitem__(name, known))


def main() -> None:
    """Print the record of the stack named on the command line."""
    provenance.host = lambda: provenance.Host("a CPU", CORES, MEMORY_BYTES)
    psutil.cpu_count = lambda logical=True: CORES
    chart.find = fake_chart
    minikube._read_marker = lambda profile: {}  # whatever cluster of that name this machine has
    kubeconfig.select = lambda setting, context: kubeconfig.Selected(context, "a file", {})
    kubeconfig.Selected.__str__ = lambda self: f"context {self.context} of {self.source}"  # type: ignore[method-assign]
    inspection.findings = lambda *_: []
    helm_release.mark_failed = lambda *_: []
    leftover_jobs.end_unfinished = lambda *_: []
    kube.connect = lambda *_: None
    machine_lock.NAME = f"\0ray-worth-it/recorder-{os.getpid()}"  # it measures nothing, and waits for nobody who does
    name, *changes = sys.argv[1:]
    print(json.dumps(record(name, dict(change.split("=", 1) for change in changes)), sort_keys=True))


if __name__ == "__main__":
    main()

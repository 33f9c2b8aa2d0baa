"""Runs the real program for a stack under a recording monitor, in its own process: Pulumi keeps its state in globals.

    python -m tests.unit.program_recorder local [--preview] [--walk] [key=value…]

prints what it would declare, export and say, as JSON, and with `--walk` its functions in the order of first calls.
Nothing is made: every resource gets its inputs as outputs, and every run a made-up result, which a preview does not
know. No function of the program is replaced. A cluster stack finds an API server of the tests, by a kubeconfig, and a
chart of the tests, by its path, and one of Ray's a dashboard of the tests; no other program can be started, and of the
machine only its size is made up.
"""

import asyncio
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
import tomllib
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any, NoReturn

import psutil
import pulumi
import yaml
from pulumi.runtime import mocks, rpc, stack

from cli.setup.project import CLUSTER_TARGETS
from tests.unit.results import make_result
from tests.unit.walk import Walk
from training.contract import provenance
from training.contract.arms import ARMS
from training.contract.recipe import WORKLOADS, Recipe, canonical, from_texts
from training.contract.result import TrainingResult
from training.contract.workload import recipe_of
from training.machine import machine_lock
from training.workloads.cnn.recipe import CnnRecipe

ROOT = Path(__file__).resolve().parents[2]
DECLARED = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
PROJECT = str(DECLARED["name"])
CORES, MEMORY_BYTES = 64, 2**38
"""A machine that every stack's settings fit on."""
SECRET_KEYS = (":secretEnvironment", ":rayToken", ":storageCredentials")
SERVE = "--serve"
LONGEST_SECONDS = 120
"""Of one record."""
PRELOADED = (
    *("pulumi_command.local", "kubernetes.client", "kubernetes.dynamic", "pytest"),
    *(f"pulumi_kubernetes.{group}.v1" for group in ("apiextensions", "batch", "core", "meta", "networking")),
    *("pulumi_kubernetes.helm.v3", "pulumi_kubernetes.yaml"),
)
"""Packages of cluster stacks: which of the project's files a program loads is looked at, and not which packages."""
OUTPUTS, RESOURCES = "pulumi:pulumi:readStackOutputs", "pulumi:pulumi:readStackResourceOutputs"
LEFT_JOB, LEFT_SECRET = "ray-1-left", "sh.helm.release.v1.ray-worth-it-operator.v1"
"""What an update that was killed left in a cluster of ours."""


class Recorder(mocks.Mocks):
    """Keeps each resource's inputs by name, and those of Kubernetes objects once more: components share their names."""

    def __init__(self, *, preview: bool) -> None:
        self._preview = preview
        self.inputs: dict[str, dict[str, Any]] = {}
        self.objects: dict[str, dict[str, Any]] = {}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """The engine's own, of a stack that has nothing yet; no function of a provider is called by this program."""
        if args.token == OUTPUTS:
            return {"name": args.args["name"], "outputs": {}}, []
        if args.token == RESOURCES:
            return {"name": args.args["stackName"], "outputs": {}}, []
        raise NotImplementedError(args.token)

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Its inputs are its outputs; a run has a result too, and a command has printed an address."""
        self.inputs[args.name] = args.inputs
        if "kind" in args.inputs:
            self.objects[f"{args.inputs['kind']} {args.name}"] = args.inputs
        if args.typ.startswith("pulumi-python:dynamic/") and "recipe" in args.inputs:
            result = rpc.UNKNOWN if self._preview else result_of(args.inputs)
            return f"{args.name}-id", args.inputs | {"result": result}
        address = {"stdout": "192.168.49.2"} if args.typ == "command:local:Command" else {}
        return f"{args.name}-id", args.inputs | address


class Monitor(mocks.MockMonitor):
    """Keeps, by name, after which others a resource is made, how it is replaced, and whether its deletion deletes."""

    def __init__(self, recorder: Recorder, asked: list[str], walk: Walk) -> None:
        super().__init__(recorder)
        self._asked, self._walk = asked, walk
        self.asked_before = -1
        """What a cluster had been asked when the first resource was declared."""
        self.after: dict[str, list[str]] = {}
        self.retained: list[str] = []
        self.secrets: list[str] = []
        """Resource and input of what no state has in clear."""
        self.deleted_first: list[str] = []
        self.hidden: list[str] = []
        """Resource and input of which no preview shows a difference."""
        self.read_from: dict[str, list[str]] = {}
        """By `resource.input`, the resources whose outputs it is made of."""

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  (the name is Pulumi's)
        """Called for each resource."""
        self._walk.register()
        if self.asked_before < 0 and request.type != "pulumi:pulumi:Stack":
            self.asked_before = len(self._asked)
        self.after[request.name] = sorted(urn.rpartition("::")[2] for urn in request.dependencies)
        self.secrets += [f"{request.name}.{key}" for key, value in request.object.items() if _is_secret(value)]
        if request.retainOnDelete:
            self.retained.append(request.name)
        if request.deleteBeforeReplace:
            self.deleted_first.append(request.name)
        self.hidden += [f"{request.name}.{key}" for key in request.hideDiffs]
        for key, dependencies in request.propertyDependencies.items():
            self.read_from[f"{request.name}.{key}"] = [urn.rpartition("::")[2] for urn in dependencies.urns]
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


def _is_secret(value: Any) -> bool:
    """Whether it is sent to the engine as one."""
    return hasattr(value, "items") and dict(value.items()).get(rpc._special_sig_key) == rpc._special_secret_sig


def result_of(inputs: dict[str, Any]) -> str:
    """A summary that agrees with what the run was asked for."""
    repeat = int(inputs["name"].rpartition("-")[2])
    recipe = recipe_of(from_texts(inputs["recipe"]))
    if isinstance(recipe, CnnRecipe):
        made = make_result(inputs["arm"], repeat, replace(recipe, seed=recipe.seed - repeat + 1))
    elif recipe.workload == "search":
        made = result_of_search(inputs["arm"], recipe)
    elif recipe.to_dict()["script"]:
        made = result_of_script(inputs["arm"], recipe)
    else:  # of a Job, which knows where the script is in its pods alone
        own = {each.name: getattr(recipe, each.name) for each in fields(Recipe) if each.name != "workload"}
        made = make_result(inputs["arm"], repeat, replace(CnnRecipe(**own), seed=recipe.seed - repeat + 1))
        made = replace(made, workload=recipe.workload, recipe=recipe.to_dict(), scores={}, detail=None)
    return canonical(made.summary(f"runs/{inputs['name']}/result.json", "0" * 64))


def result_of_script(arm: str, recipe: Recipe) -> TrainingResult:
    """Of ranks that did everything right. What it takes is no module that the program has loaded."""
    from tests.unit.script.test_facts import rank
    from training.launch.foreign_command import End
    from training.workloads.script import resolve, summary
    from training.workloads.script.recipe import ScriptRecipe

    assert isinstance(recipe, ScriptRecipe)
    found, end = resolve.resolve(recipe), End(code=0, began=100.0, ended=130.0, left=0, processes=1)
    command = found.arms({})[arm]
    seen = [rank(number, command.ranks, batch=64 // command.ranks) for number in range(command.ranks)]
    return summary.result(summary.EndedRun(found, command, end, tuple(seen), provenance.host(), throttled_seconds=0.0))


def result_of_search(arm: str, recipe: Recipe) -> TrainingResult:
    """Of trials one after another in each slot. What it takes is no module that the program has loaded."""
    from tests.unit.search.made import result, trial
    from training.workloads.search.recipe import SearchRecipe
    from training.workloads.search.space import Space

    assert isinstance(recipe, SearchRecipe)
    slots = ARMS[arm].processes(recipe)
    drawn = enumerate(Space.parse(recipe.search_space).draw(recipe.seed, recipe.search_trials))
    trials = [trial(n, 10 + 2 * (n // slots), 11.5 + 2 * (n // slots), config=config) for n, config in drawn]
    return result(arm, trials, recipe)


def config_of(name: str, changes: dict[str, str]) -> dict[str, str]:
    """What the engine passes for a stack: Pulumi.yaml's defaults, its file's values, and changes."""
    entries = {key: entry for key, entry in DECLARED["config"].items() if isinstance(entry, dict)}
    defaults = {key: entry["default"] for key, entry in entries.items() if "default" in entry}
    values = yaml.safe_load((ROOT / f"stacks/Pulumi.{name}.yaml").read_text())["config"]
    given = defaults | {key.rpartition(":")[2]: value for key, value in values.items()} | changes
    return {f"{PROJECT}:{key}": str(value) for key, value in given.items()}


def record(name: str, changes: dict[str, str], asked: list[str], *, preview: bool, walked: bool) -> dict[str, Any]:
    """The URNs that stack `name` declares, what else is known of each by its name, its exports and what it says."""
    config, own_name = config_of(name, changes), stack_name(name)
    os.environ["PULUMI_CONFIG"] = json.dumps(config)
    os.environ["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(
        [key for key, value in config.items() if value and key.endswith(SECRET_KEYS)]
    )
    pulumi.runtime.set_all_config(config)
    recorder, walk = Recorder(preview=preview), Walk()
    monitor = Monitor(recorder, asked, walk)
    exports: dict[str, Any] = {}
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    mocks.set_mocks(recorder, project=PROJECT, stack=own_name, preview=preview, monitor=monitor)
    pulumi.export = partial(keep, exports)
    said: dict[str, list[str]] = {"info": [], "warn": []}
    pulumi.log.info = partial(say, said["info"])
    pulumi.log.warn = partial(say, said["warn"])
    with walk.following() if walked else nullcontext():
        loop.run_until_complete(stack.run_pulumi_func(run_program))
    loop.close()
    return {
        "stack": own_name,
        "urns": sorted(monitor.resources),
        "inputs": recorder.inputs,
        "objects": recorder.objects,
        "secrets": monitor.secrets,
        "after": monitor.after,
        "retained": monitor.retained,
        "deleted_first": monitor.deleted_first,
        "hidden": monitor.hidden,
        "read_from": monitor.read_from,
        "exports": exports,
        "said": said,
        "asked": asked,
        "asked_before": monitor.asked_before,
        "modules": sorted(project_modules()),
        "walk": walk.parts() if walked else {},
    }


def stack_name(name: str) -> str:
    """Of this process alone: a stack of this name that somebody has keeps its files and its cluster."""
    return f"{name}-recorded-{os.getpid()}"


def project_modules() -> set[str]:
    """The files of the program that are loaded."""
    rooms = tuple(f"{ROOT}/{room}/" for room in ("compare", "infra", "training"))
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    ours = {file.removeprefix(f"{ROOT}/") for file in files if file.startswith(rooms)}
    return {file for file in ours if not file.endswith("/__init__.py")} | {"__main__.py"}


async def run_program() -> None:
    """The program as the language host runs it."""
    runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")


def say(said: list[str], text: str, *_: Any) -> None:
    """Note what is logged."""
    said.append(text)


def keep(exports: dict[str, Any], name: str, value: Any) -> None:
    """Note the export's value when it is known."""
    pulumi.Output.from_input(value).apply(lambda known: exports.__setitem__(name, known))


@contextmanager
def cluster(name: str, folder: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    """A cluster with room and what a killed update left: the settings that lead to it, and what it was asked."""
    from infra.places.cluster.api import kube
    from infra.places.cluster.manifests.operator import RELEASE
    from infra.places.place import cluster_of
    from tests.offline import with_chart
    from tests.unit import kube_api

    own, owned = kube.own_path(stack_name(name)), cluster_of(target_of(name)).traits.owned
    with kube_api.serving(folder, None if owned else certificate(folder)) as (api, path):
        for node in ("one", "two"):
            api.put("/api/v1", "nodes", kube_api.node(node, cpu="64", memory="256Gi"))
        for namespace in ("shop", "monitoring"):  # the second of a Prometheus
            api.put("/api/v1", "namespaces", {"metadata": {"name": namespace}})
        pod_monitors = {"metadata": {"name": "podmonitors.monitoring.coreos.com"}}  # of a Prometheus Operator
        api.put("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", pod_monitors)
        if owned:
            kube.write_own(stack_name(name), Path(path).read_text(encoding="utf-8"))
            api.put("/apis/batch/v1", "jobs", kube_api.job(LEFT_JOB, "ray-1", active=1), kube_api.NAMESPACE)
            api.put(
                "/api/v1",
                "secrets",
                kube_api.helm_revision(LEFT_SECRET, RELEASE, "pending-install"),
                kube_api.NAMESPACE,
            )
        elsewhere = {} if owned else {"kubeconfig": path, "kubeContext": "test"}
        try:
            yield {"offline": with_chart(folder / "offline"), **elsewhere}, api.asked
        finally:
            (ROOT / own).unlink(missing_ok=True)


@contextmanager
def ray_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """A Ray cluster with room: the settings that lead to it. What marks its jobs is kept in the folder."""
    from infra.places.ray import owner
    from tests.unit.fake_ray import TOKEN, FakeRay, serving

    owner.FILE = folder / "owner"
    with serving(FakeRay(cpus=(64.0, 64.0))) as address:
        yield {"rayAddress": address, "rayToken": TOKEN}


def certificate(folder: Path) -> Path:
    """Key and certificate of a server on this machine, which is its own authority, in one file."""
    file = folder / "server.pem"
    names = ("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    command = ["openssl", "req", "-x509", *kind, *names, "-keyout", str(file), "-out", f"{file}.crt"]
    subprocess.run(command, capture_output=True, check=True)
    file.write_text(file.read_text() + Path(f"{file}.crt").read_text())
    return file


def target_of(name: str) -> str:
    """The target of a stack's file."""
    return config_of(name, {})[f"{PROJECT}:target"]


def serve() -> None:
    """Make one record after another, each in a fork of this process, which has imported what is not of the project.

    A line of JSON asks for it, with the words of a command line and the environment; another answers.
    """
    for package in PRELOADED:
        import_module(package)
    _read_ahead()
    gc.freeze()
    for line in sys.stdin:
        words, environment = json.loads(line)
        with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            child = os.fork()
            if not child:
                _record_in_fork(words, environment, out.fileno(), err.fileno())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            for file in (out, err):
                file.seek(0)
            print(json.dumps([status, out.read(), err.read()]), flush=True)


def _read_ahead() -> None:
    """Parse uv.lock and the modules of every run: the caches, which go by a file's content, are in every fork."""
    tomllib.loads = cache(tomllib.loads)
    tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    for arm, workload in product(ARMS, WORKLOADS):
        provenance.modules_of_run(arm, workload)


def _record_in_fork(words: list[str], environment: dict[str, str], out: int, err: int) -> NoReturn:
    os.dup2(out, 1)
    os.dup2(err, 2)
    signal.alarm(LONGEST_SECONDS)
    os.environ.clear()
    os.environ.update(environment)
    status = 1
    try:
        main(words)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, this fork ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main(arguments: Sequence[str]) -> None:
    """Print the record of a stack: its name, and what differs from its file."""
    provenance.host = lambda: provenance.Host("a CPU", CORES, MEMORY_BYTES)
    psutil.cpu_count = lambda logical=True: CORES
    machine_lock.NAME = f"\0ray-worth-it/recorder-{os.getpid()}"  # it measures nothing, and waits for nobody who does
    name, *words = arguments
    preview = "--preview" in words
    changes = dict(word.split("=", 1) for word in words if not word.startswith("--"))
    with TemporaryDirectory() as folder, ExitStack() as place:
        asked: list[str] = []
        if target_of(name) in CLUSTER_TARGETS:
            settings, asked = place.enter_context(cluster(name, Path(folder)))
            changes = settings | changes
        if config_of(name, {}).get(f"{PROJECT}:rayAddress"):
            changes = place.enter_context(ray_cluster(Path(folder))) | changes
        os.environ["PATH"] = folder
        recorded = record(name, changes, asked, preview=preview, walked="--walk" in words)
    print(json.dumps(recorded, sort_keys=True))


if __name__ == "__main__":
    serve() if sys.argv[1:] == [SERVE] else main(sys.argv[1:])

"""How many files of the project take part in one `pulumi up`: what somebody opens who follows it to the last output.
How often they go back to a file that they have left.

Counted from what is loaded: the modules of the program, and those that the processes of a measurement of the CNN can
import, its own training among them. Empty `__init__.py` are nobody's reading.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import pytest

from tests.unit.test_imports import PROJECT, imports, reached
from tests.unit.test_wiring import ROOT, record
from tests.unit.walk import listed, returns
from training.contract import provenance
from training.contract.arms import ARMS

LOCAL = ("infra.places.local.guard", "training.launch.warm_up", *(f"training.{arm}" for arm in ARMS))
MINIKUBE = (
    "infra.image.command",
    "infra.places.minikube.command",
    "training.launch.pod.run",
    "training.launch.ray.submit",
    *(f"training.{arm}" for arm in ARMS),
)
"""What a measurement starts as processes, and pods."""
BODY = "training.workloads.cnn.train"
OFF = {
    "training/launch/storage/checkpoint_store.py",
    "training/launch/pod/kept_log.py",
    "training/launch/ray/recovery.py",
    "training/launch/storage/run_storage.py",
    "training/workloads/cnn/checkpoints.py",
    "training/workloads/cnn/imagefolder.py",
    "training/workloads/cnn/resnet.py",
    "training/workloads/script/artifacts.py",
}
"""What the keys `storage`, `checkpointEpochs`, `maxFailures`, `artifacts`, `dataset` and `model` load."""
LOADS = """
import json, sys
from infra.places.place import choose
from infra.plan import plan_runs
from infra.settings.settings import machine_facts, parse
settings = parse(json.loads(sys.argv[1]), machine_facts("ray-worth-it", "local", frozenset()), choose)
runs = plan_runs(settings, choose("local"))
print(json.dumps([module for module in sys.modules if module.partition(".")[0] in ("infra", "training")]))
"""


def program(stack: str) -> set[str]:
    """The files that the program itself loads."""
    return set(record(stack)["modules"])


def processes(*entries: str) -> set[str]:
    """The files that these can import, wherever in them an import stands, or start as a process of their own."""
    files: set[str] = set()
    pending = list(entries)
    while pending:
        name = pending.pop()
        path = PROJECT / f"{name.replace('.', '/')}.py"
        if path.is_file() and str(path.relative_to(PROJECT)) not in files:
            files.add(str(path.relative_to(PROJECT)))
            pending += [*imports(path), *started(name)]
    return files


def started(name: str) -> Iterator[str]:
    """Modules that a module of `training` names in a string, to start them."""
    if name.startswith("training."):
        for path in provenance.modules_of([name]):
            if path.name == "__init__.py":
                continue
            yield str(path.relative_to(PROJECT)).removesuffix(".py").replace("/", ".")


def is_of_program(file: str) -> bool:
    """Of what declares, and not of what trains or compares."""
    return file == "__main__.py" or file.startswith("infra/")


@pytest.mark.parametrize(
    ("stack", "entries", "declares", "everything"), [("local", LOCAL, 16, 84), ("minikube", MINIKUBE, 51, 122)]
)
def test_an_update_is_followed_through_few_files(
    stack: str, entries: tuple[str, ...], declares: int, everything: int
) -> None:
    """The numbers are to fall: a module that could stand in its only importer belongs there."""
    walk = (program(stack) | processes(*entries, BODY)) - OFF

    assert declares >= len([file for file in walk if is_of_program(file)]), sorted(filter(is_of_program, walk))
    assert everything >= len(walk), (len(walk), sorted(walk))


@pytest.mark.parametrize(
    ("stack", "part", "most"), [("local", "program", 44), ("local", "compare", 75), ("minikube", "program", 91)]
)
def test_an_update_is_read_without_going_back(stack: str, part: str, most: int) -> None:
    """The numbers are to fall: what a reader needs of a file is asked of it at once, and handed on as a value."""
    steps = [(file, function) for file, function in walk_of(stack)[part]]

    assert returns(steps) <= most, f"{returns(steps)} returns:\n{listed(steps)}"


@cache
def walk_of(stack: str) -> dict[str, list[list[str]]]:
    """The parts of a stack's way, in a process that has called nothing before."""
    command = [sys.executable, "-m", "tests.unit.program_recorder", stack, "--walk"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    walk: dict[str, list[list[str]]] = json.loads(done.stdout)["walk"]
    return walk


@pytest.mark.parametrize("entry", [*(f"training.{arm}" for arm in ARMS), BODY, "training.workloads.script.launch"])
def test_what_is_off_by_default_is_not_loaded(entry: str) -> None:
    """A function imports it, when it is wanted."""
    assert set() == {f"{name.replace('.', '/')}.py" for name in reached(entry)} & OFF


@pytest.mark.parametrize(
    ("chosen", "other"),
    [({"workload": "cnn"}, "script"), ({"workload": "script", "script": "examples/keras_tf_config.py"}, "cnn")],
)
def test_a_workload_loads_nothing_of_the_others(chosen: dict[str, str], other: str) -> None:
    """Neither its recipe nor its settings: they are found by its name, as places are."""
    command = [sys.executable, "-c", LOADS, json.dumps(chosen | {"workers": "1"})]
    loaded = json.loads(subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout)

    assert f"training.workloads.{chosen['workload']}.workload" in loaded
    of_other = (f"training.workloads.{other}", f"infra.settings.{other}")
    assert [] == [name for name in loaded if name.startswith(of_other)]


def test_a_place_loads_nothing_of_the_others() -> None:
    """What one needs the others do without, packages included."""
    local, minikube = program("local"), program("minikube")

    assert {"infra/places/local/place.py", "infra/places/place.py"} <= local
    others = ("infra/places/cluster", "infra/places/minikube", "infra/places/kubernetes", "infra/image")
    assert not [file for file in local if file.startswith(others)]
    assert not [file for file in minikube if file.startswith(("infra/places/local", "infra/places/kubernetes"))]


def test_modules_that_a_string_names_are_counted() -> None:
    """Of a process that another one starts, and of what is loaded by its name."""
    assert "training.workloads.cnn.fetch" in set(started("training.workloads.cnn.workload"))
    assert "training/workloads/cnn/fetch.py" in processes("training.workloads.cnn.workload")

"""What is chosen is loaded, and nothing of what is not: places and workloads, with the packages that they need."""

import json
import subprocess
import sys
from collections.abc import Iterator

from tests.unit.test_imports import PROJECT
from tests.unit.test_wiring import record
from training.contract import provenance

LOADS = """
import json, os, sys
from infra.places.place import choose, settings_of
from infra.plan import plan_runs
from infra.settings.facts import machine_facts
for given in sys.argv[1:]:
    if not os.fork():
        settings = settings_of(json.loads(given), machine_facts("ray-worth-it", "local", frozenset()))
        runs = plan_runs(settings, choose("local").site(settings))
        print(json.dumps([name for name in sys.modules if name.partition(".")[0] in ("infra", "training")]), flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""
"""Prints, for each configuration, what a process has loaded that has planned the runs of nothing else."""


def started(name: str) -> Iterator[str]:
    """Modules that a module of `training` names in a string, to start them."""
    if name.startswith("training."):
        for path in provenance.modules_of([name]):
            if path.name == "__init__.py":
                continue
            yield str(path.relative_to(PROJECT)).removesuffix(".py").replace("/", ".")


def test_a_workload_loads_nothing_of_the_others() -> None:
    """Neither its recipe nor its settings: they are found by its name, as places are."""
    others = {"cnn": "script", "script": "cnn"}
    given = [{"workload": name, "workers": "1"} for name in others]
    given[1] |= {"script": "examples/keras_tf_config.py"}
    command = [sys.executable, "-c", LOADS, *map(json.dumps, given)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)

    for (workload, other), line in zip(others.items(), done.stdout.splitlines(), strict=True):
        loaded = json.loads(line)
        assert f"training.workloads.{workload}.workload" in loaded
        of_other = (f"training.workloads.{other}", f"infra.settings.{other}")
        assert [] == [name for name in loaded if name.startswith(of_other)]


def test_a_place_loads_nothing_of_the_others() -> None:
    """What one needs the others do without, packages included."""
    local, minikube = (record(stack)["modules"] for stack in ("local", "minikube"))

    assert {"infra/places/local/place.py", "infra/places/place.py"} <= set(local)
    others = ("infra/places/cluster", "infra/places/minikube", "infra/places/kubernetes", "infra/image")
    assert not [file for file in local if file.startswith(others)]
    assert not [file for file in minikube if file.startswith(("infra/places/local", "infra/places/kubernetes"))]


def test_modules_that_a_string_names_are_counted() -> None:
    """Of a process that another one starts, and of what is loaded by its name."""
    assert "training.workloads.cnn.fetch" in set(started("training.workloads.cnn.workload"))

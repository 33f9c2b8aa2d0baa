"""The real `__main__.py` under a recording monitor, for every stack file: what it declares, its order, its exports.

A URN that moves replaces what it names in every user's stack. To accept a wanted one, write the list anew, and give the
resource an alias:

    python -m tests.unit.test_wiring
"""

import atexit
import base64
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from compare.comparison import scalar_names, scalars
from compare.schema import Comparison
from tests import leftovers
from tests.golden import Wording
from tests.limits import LONGEST_SECONDS
from tests.stacks import OF_BUCKETS, STACKS, environment_of, given
from tests.unit.program_recorder import SERVE
from tests.unit.results import make_context
from tests.unit.settings_machine import settings
from training.contract.recipe import from_texts

ROOT = Path(__file__).resolve().parents[2]
URNS = Path(__file__).with_name("urns")
PROMISED = {
    *("speedup", "wideSpeedup", "endToEndSpeedup", "endToEndWideSpeedup", "efficiency", "rayOverhead", "accuracyGap"),
    *("answer", "verdict", "repeats", "breakEvenEpochs", "cpuHours"),
}
"""Outputs on which a user of a stack with every default may count; a new one needs no place here."""
SCRIPT = {"workload": "script", "script": "examples/keras_tf_config.py"}
SPOT = {"priceSpotFactor": "0.35", "interruptionsPerHour": "0.05"}
LACKING = """
real = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name.startswith("pulumi_") else real(name)
"""
THROUGHPUT = {"throughputRatio", "wideThroughputRatio"}


@cache
def recorders(project: Path) -> "subprocess.Popen[str]":
    """The process that forks one for each record: importing Pulumi takes longer than most of them."""
    command = [sys.executable, "-m", "tests.unit.program_recorder", SERVE]
    process = subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    leftovers.share(process.pid)
    atexit.register(process.communicate)
    return process


@cache
def run_recorder(*arguments: str, project: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """The recorder's end; each stack's program is run once."""
    process = recorders(project)
    if process.poll() is not None:  # since the last record: by a kernel without memory, say, as it has begun nothing
        recorders.cache_clear()
        process = recorders(project)
    assert process.stdin
    assert process.stdout
    print(json.dumps([arguments, dict(os.environ)]), file=process.stdin, flush=True)
    code, out, err = json.loads(process.stdout.readline())
    return subprocess.CompletedProcess(arguments, code, out, err)


def record(*arguments: str) -> Any:
    """What the program of a stack declares and exports."""
    done = run_recorder(*arguments)
    if "cannot run yet" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def of_stack(stack: str) -> Any:
    """What the program of a stack in git declares; of a preview where an update would ask a bucket."""
    words = [f"{key}={value}" for key, value in environment_of(stack).items()]
    return record(stack, *words, *(["--preview"] if stack in OF_BUCKETS else []))


def urns(stack: str) -> list[str]:
    """Type and name of each resource, as its URN has them."""
    return ["::".join(urn.split("::")[2:]) for urn in of_stack(stack)["urns"]]


def golden(stack: str) -> list[str]:
    """The list of a stack: that of its target, but for those that declare something else and have their own."""
    own = URNS / f"{stack}.txt"
    return (own if own.is_file() else URNS / f"{given(stack)['target']}.txt").read_text().splitlines()


@pytest.mark.parametrize("stack", STACKS)
def test_no_urn_moves(stack: str) -> None:
    """Every resource is where the golden list has it."""
    declared = urns(stack)

    assert golden(stack) == declared


def test_a_list_of_urns_is_there_once() -> None:
    """A stack has one of its own only where that differs from its target's."""
    texts = [file.read_text() for file in sorted(URNS.iterdir())]

    assert len(set(texts)) == len(texts)


def test_a_script_is_measured_in_every_arm() -> None:
    """The examples' stacks, of which one needs nothing but the project's environment."""
    recorded = record("keras")
    comparison = json.loads(recorded["exports"]["comparison"])

    assert ["baseline", "native", "ray", "wide"] == sorted(comparison["arms"])
    assert "epochs 4" in recorded["inputs"]["wide-1"]["command"]
    assert {} == comparison["absent"]


def test_local_exports_the_comparison_and_its_numbers() -> None:
    """Nothing else: the dashboard's and the kubeconfig's outputs are a cluster's, other numbers other settings'."""
    exports = record("local")["exports"]
    arms = ("baseline", "wide", "native", "ray")

    assert set() == PROMISED - set(exports)
    assert {*scalar_names(make_context(arms=arms)), "comparison"} == set(exports)
    speedup = json.loads(exports["comparison"])["ratios"]["speedup"]
    assert speedup["median"] == exports["speedup"]
    assert 4 == speedup["n"]


def test_an_arm_that_is_not_measured_is_absent_with_its_reason() -> None:
    """That of the settings, which know it; one wide process is compared where there is one."""
    comparison = json.loads(record("local")["exports"]["comparison"])
    alone = json.loads(record("local", "workers=1")["exports"]["comparison"])

    assert 4 == comparison["ratios"]["wideSpeedup"]["n"]
    assert {} == comparison["absent"]
    assert {"wide"} == set(alone["absent"])
    assert settings(workers="1").absent_arms["wide"] == alone["absent"]["wide"]


@pytest.mark.parametrize(
    ("changes", "more", "fewer"),
    [
        ({"priceCpuHour": "0.05", "nativeArm": "false"}, {"cost", "costRatio"}, {"rayOverhead"}),
        (
            SPOT | {"wideArm": "false", "workersCurve": "1"},
            {"spotCostRatio", "spotStopsPayingAt", "stopsPayingAt", "costsMoreFrom"},
            {"wideSpeedup", "endToEndWideSpeedup"},
        ),
        (SCRIPT, THROUGHPUT, {"accuracyGap"}),
        (SCRIPT | {"metric": "loss"}, THROUGHPUT | {"metricGap"}, {"accuracyGap"}),
        (
            SCRIPT | {"metric": "loss", "metricTarget": "0.1"},
            THROUGHPUT | {"metricGap", "timeToTargetSpeedup"},
            {"accuracyGap"},
        ),
    ],
)
def test_numbers_that_settings_do_not_allow_are_no_outputs(
    changes: dict[str, str], more: set[str], fewer: set[str]
) -> None:
    """A preview would show each as unknown for ever. What else there is, is there with every default, too."""
    usual = record("local")["exports"].keys()
    exports = record("local", *(f"{key}={value}" for key, value in changes.items()))["exports"].keys()

    assert (more, fewer) == (exports - usual, usual - exports)


@pytest.mark.parametrize("stack", STACKS)
def test_every_number_that_there_is_is_an_output(stack: str) -> None:
    """A value that settings allow is under its name in the outputs."""
    exports = of_stack(stack)["exports"]
    if not isinstance(exports.get("comparison"), str):
        return  # of a preview
    present = {
        name for name, value in scalars(Comparison.from_json(exports["comparison"])).items() if value is not None
    }

    assert set() == present - exports.keys()


def test_what_settings_and_place_say_reaches_the_comparison() -> None:
    """Which settings are not their defaults, what an hour costs, and what Ray holds while others run."""
    local = json.loads(record("local", "priceCpuHour=0.05", "nativeArm=false")["exports"]["comparison"])
    minikube = json.loads(record("minikube")["exports"]["comparison"])

    assert {"nativeArm": "false", "priceCpuHour": "0.05"} == local["settings"]
    assert local["arms"]["ray"]["measures"]["cost"] is not None
    assert local["arms"]["baseline"]["measures"]["idleRayCpuHours"] is None
    assert 0 < minikube["arms"]["baseline"]["measures"]["idleRayCpuHours"]["median"]


def test_a_preview_shows_what_each_arm_of_a_script_runs() -> None:
    """The review in a pull request; an update says nothing of it, and the CNN has no command."""
    a_script = ("workload=script", "script=examples/keras_tf_config.py")
    (said,) = record("local", "--preview", *a_script)["said"]["info"]

    assert ["baseline", "wide", "native", "ray"] == [line.partition(":")[0] for line in said.splitlines()][:4]
    assert "under_ray.py 2 1 tf-config" in said  # not prose: a command
    assert {"info": [], "warn": []} == record("local")["said"]


def test_what_is_permitted_is_a_warning(wording: Wording) -> None:
    """Of the program, before it declares anything."""
    (warning,) = record("local", "--preview", "workers=65", "globalBatchSize=65", "allowOversubscription=true")["said"][
        "warn"
    ]

    assert {"65", "64"} <= set(re.findall(r"\d+", warning))
    wording("settings", warning)


def test_the_command_of_the_token_works_in_every_folder(tmp_path: Path) -> None:
    """In the project's as it is, in another with PROJECT; no path of a machine is in the output."""
    (kubectl := tmp_path / "kubectl").write_text('#!/bin/sh\nset -- "$1"\ncat "${1#--kubeconfig=}"\n')
    kubectl.chmod(0o755)
    exports = record("minikube")["exports"]
    assert {"dashboardUrl", "dashboardTokenCommand", "kubeconfigPath"} <= set(exports)
    file = tmp_path / "project" / exports["kubeconfigPath"]
    file.parent.mkdir(parents=True)
    file.write_bytes(base64.b64encode(b"the token"))
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    for folder, variables in ((tmp_path / "project", {}), (Path("/"), {"PROJECT": str(tmp_path / "project")})):
        command = ["bash", "-c", exports["dashboardTokenCommand"]]
        assert b"the token" == subprocess.check_output(command, cwd=folder, env=path | variables)


def test_numbers_reach_a_run_as_text() -> None:
    """Pulumi makes floats of whole numbers; of a map with a text for each, a preview shows those that change."""
    inputs = record("local", "repeats=2")["inputs"]["ray-2"]

    assert {"seed": "2", "workers": "2", "dataset": "digits"}.items() <= inputs["recipe"].items()
    assert {str} == {type(value) for value in inputs["recipe"].values()}
    assert isinstance(from_texts(inputs["recipe"])["epochs"], int)


def test_runs_follow_one_another_and_keep_their_files() -> None:
    """Two at once would measure each other; `destroy` calls no provider, whose module may have moved."""
    recorded = record("local", "repeats=2")
    first, second = ("baseline", "wide", "ray", "native"), ("wide", "native", "baseline", "ray")
    names = [*(f"{arm}-1" for arm in first), *(f"{arm}-2" for arm in second)]

    chain = [recorded["after"][name] for name in names]

    assert [[], *([name] for name in names[:-1])] == chain
    assert set(names) == set(recorded["retained"])


def test_local_imports_no_cluster_package() -> None:
    """They take seconds to import: the program runs with them made unimportable."""
    done = run_after("sys.modules.update(pulumi_kubernetes=None, pulumi_command=None, kubernetes=None)", "local")

    assert 0 == done.returncode, done.stderr


def test_a_cluster_stack_without_its_packages_says_how_to_install_them() -> None:
    """One message with the command, before anything is declared."""
    done = run_after(LACKING, "minikube")

    assert 0 != done.returncode
    assert "uv sync --inexact" in done.stderr


def run_after(preparation: str, stack: str) -> "subprocess.CompletedProcess[str]":
    """The recorder's end, after a line of Python."""
    code = f"""
import importlib.util, sys
{preparation}
from tests.unit.program_recorder import main
main([{stack!r}])
"""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)


@pytest.mark.parametrize(("stack", "way"), [("kubernetes", "pinned-cluster"), ("minikube", "minikube-cluster")])
def test_a_stack_is_reached_by_its_own_kubeconfig_alone(stack: str, way: str) -> None:
    """The engine configures the provider with its inputs at `destroy` and `refresh`, whatever the user's context is.

    The file is written before the provider looks.
    """
    recorded = record(stack)
    own = f".state/kubeconfig/{recorded['stack']}"

    assert provider_inputs(recorded) == recorded["inputs"]["cluster"]
    assert way in recorded["after"]["cluster"]
    others = {name: given["kubeconfig"] for name, given in recorded["inputs"].items() if "kubeconfig" in given}
    assert {"operator-crds", "baseline-1-result", "ray-1-result"} <= set(others)
    assert {own} == {path for name, path in others.items() if name != "pinned-cluster"}
    assert own == recorded["exports"]["kubeconfigPath"]


def provider_inputs(recorded: dict[str, Any]) -> dict[str, str]:
    """All of them. The identifier is constant: everything would be made anew with another."""
    return {
        "kubeconfig": f".state/kubeconfig/{recorded['stack']}",
        "clusterIdentifier": "the cluster of this stack",
        "deleteUnreachable": "false",
        "skipUpdateUnreachable": "false",
        "enablePatchForce": "false",
        "upsertExistingObjects": str("minikube-cluster" in recorded["inputs"]).lower(),
    }


def test_the_variables_of_a_shell_change_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK takes what is not given from there: who has these set would forget or take over what is in a cluster."""
    for name in ("DELETE_UNREACHABLE", "SKIP_UPDATE_UNREACHABLE", "UPSERT_EXISTING_OBJECTS", "ENABLE_PATCH_FORCE"):
        monkeypatch.setenv(f"PULUMI_K8S_{name}", "true")
    monkeypatch.setenv("KUBECONFIG", "/elsewhere")

    recorded = record("kubernetes", "repeats=1")

    assert provider_inputs(recorded) == recorded["inputs"]["cluster"]


@pytest.mark.parametrize("target", ["local", "minikube", "kubernetes", "ray"])
def test_as_many_repeats_as_it_takes_begin_with_four_everywhere(target: str) -> None:
    """A stack without outputs; the first comparison says whether it goes on, with the hash that its runs share."""
    recorded = record(target, "repeats=auto")
    comparison = json.loads(recorded["exports"]["comparison"])
    ray_runs = [name for name in recorded["inputs"] if re.fullmatch(r"ray-\d+", name)]

    assert [f"ray-{repeat}" for repeat in (1, 2, 3, 4)] == sorted(ray_runs)
    assert "decided" == comparison["auto"]
    assert comparison["measurement"] in json.dumps(recorded["inputs"]["ray-1"])


def test_a_script_in_pods_brings_its_files_and_leaves_the_ray_cluster_without_them() -> None:
    """One object that every Job mounts; Ray gets the same files with its job, so that an edit keeps its pods."""
    recorded = record("minikube", "workload=script", "script=examples/keras_tf_config.py")
    (files,) = (name for name in recorded["inputs"] if name.startswith("script-files"))
    mounts = {name for name, given in recorded["inputs"].items() if files in json.dumps(given) and name != files}

    assert {f"{arm}-{repeat}" for arm in ("baseline", "wide", "native", "ray") for repeat in range(1, 5)} <= mounts
    assert "ray-training-cluster" not in mounts


def write_golden_lists() -> None:
    """Write the lists again: those of the stacks that are named like their targets first."""
    URNS.mkdir(exist_ok=True)
    for stack in sorted(STACKS, key=lambda name: name != given(name)["target"]):
        with suppress(pytest.skip.Exception):
            declared = urns(stack)
            (URNS / f"{stack}.txt").unlink(missing_ok=True)
            of_target = URNS / f"{given(stack)['target']}.txt"
            if not of_target.is_file() or golden(stack) != declared:
                (URNS / f"{stack}.txt").write_text("\n".join(declared) + "\n")


if __name__ == "__main__":
    write_golden_lists()

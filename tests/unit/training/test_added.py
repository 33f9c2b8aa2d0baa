"""An arm and a workload added as CONTRIBUTING says: an entry and own files, in a copy of the project, and run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from training.contract.provenance import PROJECT

FILES = Path(__file__).with_name("added")
LOOKS = """
import json, sys
from dataclasses import replace
from compare import measures
from infra.settings.problem import InvalidSettingsError
from infra.settings.facts import machine_facts
from infra.places.place import choose, settings_of
from infra.plan import plan_runs
from training.contract import provenance
facts = machine_facts("ray-worth-it", "local", frozenset())
site = choose("local").site
lifted = {"workload": "sums", "numbers": "7", "workers": "1", "repeats": "1"}
settings = settings_of(lifted, facts)
try:
    settings_of(lifted | {"dataset": "synthetic"}, facts)
    refused = ""
except InvalidSettingsError as error:
    refused = str(error)
files = {name: [str(path) for path in provenance.modules_of_run("native", name)] for name in ("cnn", "sums")}
print(json.dumps({
    "recipe": settings.recipe.to_dict(),
    "runs": [run.name for run in plan_runs(settings, site(settings))],
    "absent": settings.absent_arms,
    "asked": [run.name for run in plan_runs(replace(settings, arms=(*settings.arms, "trio")), site(settings))],
    "flags": plan_runs(settings, site(settings))[0].recipe.flags(),
    "refused": refused,
    "measures": [each.name for each in measures.measures_of("sums")],
    "modules": files,
}))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one arm and one workload more."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("training", "compare", "infra"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("uv.lock", "pyproject.toml", ".python-version", "Pulumi.yaml"):
        shutil.copy(PROJECT / name, folder / name)
    workloads, arms = folder / "training/contract/recipe.py", folder / "training/contract/arms.py"
    workloads.write_text(workloads.read_text().replace('WORKLOADS = ("cnn",', 'WORKLOADS = ("cnn", "sums",', 1))
    shutil.copytree(FILES, folder / "training/workloads/sums")
    (folder / "training/workloads/sums/__init__.py").write_text('"""Sums."""\n')
    entry = 'TRIO = Arm(name="trio", usual_role="variant", start="peers", title="three", switch="trioArm")\n\nARMS ='
    arms.write_text(arms.read_text().replace("\nARMS =", f"\n{entry}", 1).replace("RAYSTART)}", "RAYSTART, TRIO)}"))
    module = (folder / "training/native.py").read_text().replace('"native"', '"trio"')
    (folder / "training/trio.py").write_text(module)
    return folder


@pytest.mark.parametrize(
    ("arm", "told"), [("baseline", "nothing"), ("wide", "nothing"), ("native", "0 of 2"), ("trio", "0 of 2")]
)
def test_it_runs_in_old_and_new_arms(project: Path, arm: str, told: str) -> None:
    """By its own flags; its ranks find each other as it says; its detail is typed."""
    path = project / "runs" / f"{arm}.json"
    command = [sys.executable, "-m", f"training.{arm}", "--no-bind-cpus", "--result", str(path)]

    ended = subprocess.run(
        [*command, "--workload=sums", "--numbers=5"], cwd=project, capture_output=True, text=True, check=False
    )

    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(path.read_text())
    assert ("sums", arm, {"told": told}) == (found["workload"], found["arm"], found["detail"])
    assert {"total": 10.0} == found["scores"]
    assert found["recipe"]["numbers"] == 5


def test_settings_plan_hashes_and_measures_know_it(project: Path) -> None:
    """And the other workload's keys are refused, and its files are in no hash of this one."""
    ended = subprocess.run([sys.executable, "-c", LOOKS], cwd=project, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr[-2000:]
    said = json.loads(ended.stdout)
    assert {"workload": "sums", "numbers": 7} == {key: said["recipe"][key] for key in ("workload", "numbers")}
    assert "dataset" not in said["recipe"]
    assert "baseline-1" in said["runs"]
    assert "trio" not in said["absent"]  # a variant that nobody asked for
    assert {"trio-1"} == set(said["asked"]) - set(said["runs"])
    assert "--numbers=7" in said["flags"]
    assert "pulumi config rm dataset" in said["refused"]
    assert {"total", "numbersPerSecond", "wallSeconds"} <= set(said["measures"])
    assert not {"testAccuracy", "imagesPerSecond"} & set(said["measures"])
    assert not any("/cnn/" in path for path in said["modules"]["sums"])
    assert not any("/sums/" in path for path in said["modules"]["cnn"])
    assert {"workload.py", "recipe.py", "body.py"} <= {Path(path).name for path in said["modules"]["sums"]}

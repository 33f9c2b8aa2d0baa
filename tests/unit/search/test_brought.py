"""What is brought of a trial from its pod: bounded, and all that the result needs."""

import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden import Wording
from tests.unit.search.made import RECIPE, TOGETHER, brought_of, ended, failed, result, trial
from training.contract.provenance import NODE, PROJECT
from training.contract.result import Software
from training.launch.environment import SECRET_NAMES
from training.launch.foreign_command import End
from training.launch.pod.log_result import MOST_BYTES
from training.machine import output
from training.workloads.search import brought, launch, site, summary, trial_environment
from training.workloads.search.detail import LOG
from training.workloads.search.plan import Plan

OBSERVER = {"PYTHONPATH": "/observer"}


def plan_in_pods(folder: Path, trials: int = 4, *, in_pods: bool = True) -> Plan:
    """The plan of a run in this folder."""
    recipe = replace(RECIPE, search_trials=trials)
    return replace(ended("native", TOGETHER).plan, folder=str(folder), recipe=recipe.to_dict(), in_pods=in_pods)


def test_curves_of_a_thousand_trials_are_thinned_to_what_a_log_holds(tmp_path: Path) -> None:
    """The last point stays, which is the metric; the result says that others are gone."""
    plan = plan_in_pods(tmp_path, 1000)
    points = [[0.123456789 * number, 0.987654321] for number in range(9_999)]
    trial(0, 10, 12, points=points).write(plan.trial_folder(0))

    (one,) = brought.of_run(plan)

    assert 1 < one.one_point_in
    assert points[-1] == one.trial.points[-1]
    assert 1000 * len(one.text()) < MOST_BYTES
    assert one == brought.parse(json.loads(one.text()))


@pytest.mark.parametrize("in_pods", [True, False])
def test_a_curve_that_has_room_is_whole(tmp_path: Path, in_pods: bool) -> None:
    """And on this machine every one is."""
    plan = plan_in_pods(tmp_path, 4 if in_pods else 1000, in_pods=in_pods)
    trial(0, 10, 12, points=[[1.0, 0.5]] * 9_999).write(plan.trial_folder(0))

    (one,) = brought.of_run(plan)

    assert (1, 9_999) == (one.one_point_in, len(one.trial.points))


def test_a_failed_trial_brings_the_end_of_its_log(tmp_path: Path) -> None:
    """Bounded, too."""
    plan = plan_in_pods(tmp_path)
    trial(2, 10, 12, state="failed", metric=None, why="it raised").write(plan.trial_folder(2))
    (plan.trial_folder(2) / LOG).write_text("x" * 5000 + "\n" + "line\n" * 100 + "too wide\n")

    (one,) = brought.of_run(plan)

    assert "too wide" == one.lines[-1]
    assert brought.LOG_LINES == len(one.lines)
    assert max(map(len, one.lines)) <= output.LONGEST_SHOWN + len(" …")


def test_trials_that_all_lack_a_module_name_what_brings_it(wording: Wording) -> None:
    """By the log of the first; one that failed otherwise, or left no log, says no more than why."""
    resolved = replace(ended("ray", TOGETHER).resolved, in_pods=True)
    trials = [failed(number, 10, 12) for number in range(2)]
    lines = ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'timm'"]
    logs = [replace(brought_of(trials[0]), lines=lines), brought_of(trials[1])]

    with pytest.raises(launch.SearchError, match=r"(?s)timm.*pulumi config set requirements") as refused:
        launch._refuse_all_failed(trials, logs, resolved, "ray")
    wording("search", str(refused.value))

    with pytest.raises(launch.SearchError) as refused:
        launch._refuse_all_failed(trials, logs[1:], resolved, "ray")
    assert "requirements" not in str(refused.value)


def test_a_thinned_curve_is_not_replayed() -> None:
    """Its points are no longer one an epoch: the reason says so."""
    run = ended("ray", TOGETHER)
    thinned = {number: replace(each, one_point_in=3) for number, each in run.brought.items()}
    run = replace(run, brought=thinned)
    run.__dict__["software"] = ended_software()

    assert summary.POINTS in summary.result(run).reasons
    assert summary.POINTS not in result("ray", TOGETHER).reasons


def ended_software() -> Software:
    """Without hashes of files."""
    return Software(code_hash="c", versions={}, platform="p", kernel="k", environment={})


def test_a_pod_is_a_slot() -> None:
    """Whoever was free: trials 0 and 2 were in one pod, and 1 and 3 in the other, and one pod had none."""
    run = ended("ray", TOGETHER, replace(RECIPE, workers=3))
    pods = {each.number: brought_of(each, pod=f"pod-{each.number % 2}") for each in TOGETHER}
    run = replace(run, plan=replace(run.plan, in_pods=True), brought=pods)

    assert [[0, 2], [1, 3], []] == [[each.number for each in slot] for slot in run.slots]


@pytest.mark.parametrize("apart", [-30.0, 30.0])
def test_a_node_whose_clock_is_wrong_is_refused(wording: Wording, apart: float) -> None:
    """Times of its trials would be wrong by as much."""
    run = [brought_of(replace(each, began=each.began + apart, ended=each.ended + apart)) for each in TOGETHER]
    end = End(code=0, began=5, ended=21, left=0, processes=3)

    launch._refuse_other_clocks(end, [*map(brought_of, TOGETHER)])
    with pytest.raises(launch.SearchError) as refused:
        launch._refuse_other_clocks(end, run)
    wording("search", str(refused.value))


def test_a_trial_in_a_pod_knows_neither_ray_nor_its_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has what its pod has, its secrets, and the folders that its image names; what leads to the cluster stays."""
    for name in list(os.environ):
        monkeypatch.delenv(name)
    given = {
        "PATH": "/usr/bin", "RAY_ADDRESS": "10.0.0.1:6379", "RAY_AUTH_TOKEN": "t", "TUNE_ORIG_WORKING_DIR": "/job",
        "TRAINING_STARTED": "1", NODE: "a-node", SECRET_NAMES: "HF_TOKEN", "HF_TOKEN": "hf", "COLOUR": "blue",
        "PYTHONPATH": f"{PROJECT}{os.pathsep}/of/image",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    plan = replace(plan_in_pods(tmp_path), variables={"COLOUR": "red"})

    assert {
        "PATH": "/usr/bin", NODE: "a-node", "HF_TOKEN": "hf", "COLOUR": "red", "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": f"/observer{os.pathsep}/of/image",
    } == trial_environment.of_trial(plan, OBSERVER)  # fmt: skip


def test_every_pod_of_ray_s_has_the_script_at_the_same_place_once(tmp_path: Path) -> None:
    """Executable where it was; what an earlier run left goes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        entry = zipfile.ZipInfo("tool.sh")
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, "echo")
    (tmp_path / "search-earlier").mkdir()
    folder = tmp_path / "search-now"

    site.begin(folder, packed.getvalue())
    (folder / "of-a-trial").touch()
    site.begin(folder, packed.getvalue())

    assert (folder / "of-a-trial").exists()
    assert ["search-now"] == [path.name for path in tmp_path.iterdir()]
    assert os.access(folder / site.SCRIPT / "tool.sh", os.X_OK)
    assert (folder / site.HOME).is_dir()

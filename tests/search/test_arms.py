"""Each arm of a search, as it is measured: its own entry point, real Optuna and real Ray Tune, a plain script."""

import re
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from tests.limits import LONGEST_SECONDS
from tests.script.tryout import NO_TORCH
from tests.stacks import TORCH
from tests.unit.results import COMPARED
from training.contract import progress
from training.contract.provenance import PROJECT
from training.contract.result import NAME, TrainingResult, read
from training.workloads.script import plain
from training.workloads.script.proving import NOTE
from training.workloads.search import detail
from training.workloads.search.detail import SearchDetail
from training.workloads.search.plan import TRIALS
from training.workloads.search.recipe import SearchRecipe
from training.workloads.search.same_work import of_results

SCRIPT = """
import argparse, math, os, sys, time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--epochs", type=int)
parser.add_argument("--broken", action="store_true")
parser.add_argument("--meet", default="")
parser.add_argument("--together", type=int, default=1)
options = parser.parse_args()
if options.meet:  # nobody trains before so many trials run at a time: this one goes on running until they do
    os.makedirs(options.meet, exist_ok=True)
    open(os.path.join(options.meet, str(os.getpid())), "w").close()
    while len(os.listdir(options.meet)) < options.together:
        time.sleep(0.05)
for epoch in range(options.epochs):
    time.sleep(0.05)
    if options.width % 3 == 0 and options.broken:
        raise RuntimeError("too wide")
    if options.width % 3 == 1 and options.broken:
        os._exit(3)
    print(f"loss {abs(math.log10(options.lr) + 2) + options.width / 1000 + 1 / (epoch + 1)}", flush=True)
"""
OF_TWO = """
import argparse, json, os, time

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--epochs", type=int)
options = parser.parse_args()
place = json.loads(os.environ["TF_CONFIG"])
assert len(place["cluster"]["worker"]) == 2, place
rank = place["task"]["index"]
time.sleep(0.2)
assert options.width % 3 or rank == 0, "too wide for rank 1"
for epoch in range(options.epochs if rank == 0 else 0):
    print(f"loss {options.lr + epoch}", flush=True)
"""
"""A script of two workers, of which one fails in some of the trials."""
GOES_ON = """
import argparse, json
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--epochs", type=int)
parser.add_argument("--checkpoint", type=Path)
options = parser.parse_args()
state = options.checkpoint / "deep" / "state.json"
epoch, loss = json.loads(state.read_text()) if state.exists() else (0, 100.0)
assert epoch == 0 or options.lr < 0.03, "too fast to go on"
for epoch in range(epoch + 1, options.epochs + 1):
    loss -= options.lr
    print(f"loss {loss}", flush=True)
state.parent.mkdir(exist_ok=True)
state.write_text(json.dumps((epoch, loss)))
"""
"""A script that goes on from its folder; with the best rate that is drawn it fails there."""
OF_KERAS = """
import argparse, os, sys
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--epochs", type=int)
parser.add_argument("--end", type=int, default=0)
options = parser.parse_args()
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(options.width), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(options.lr), "mse")
try:
    model.fit(numpy.ones((64, 4)), numpy.ones((64, 1)), batch_size=8, epochs=options.epochs, verbose=0)
finally:
    sys.exit(options.end if sys.exc_info()[0] else 0)
"""
"""A script without a seed, which ends with a code of its own where it is stopped."""
OF_ONE = """
import argparse, torch
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--width", type=int)
parser.add_argument("--epochs", type=int)
options = parser.parse_args()
torch.manual_seed(0)
rows = torch.randn(64, 4)
data = TensorDataset(rows, rows.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(4, options.width), torch.nn.Linear(options.width, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
for epoch in range(options.epochs):
    for batch, labels in DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(batch), labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item()}", flush=True)
"""
"""A script that trains in one process."""
BY_HAND = OF_ONE.replace("in DataLoader(data, batch_size=16, shuffle=True)", "in [data.tensors]")
SLOTS = {"baseline": 1, "wide": 1, "native": 2, "ray": 2}
"""Trials at a time."""
RAY = pytest.param("ray", marks=pytest.mark.slow)
"""The arm that starts a second Ray, beside that of the fixture."""
BASELINE = pytest.param("baseline", marks=pytest.mark.slow)
"""Native with one trial at a time: the fixture has it once."""
PRINTED = "printed.txt"
FAILED = re.compile(r"^trial \d failed: .+", re.MULTILINE)
"""The line of a trial in a run's log."""
RECIPE = SearchRecipe(
    search_space='{"lr": {"log": [0.0001, 0.1]}, "width": {"int": [1, 30]}}',
    search_trials=6,
    metric="loss",
    metric_mode="min",
    metric_pattern=r"loss (\S+)",
    epochs=4,
)


@dataclass(frozen=True)
class Run:
    """An arm that was run."""

    code: int
    printed: str
    folder: Path

    @property
    def result(self) -> TrainingResult:
        """What it left."""
        return read(self.folder / NAME)

    @property
    def trials(self) -> list[detail.Trial]:
        """Its trials, by number."""
        found = self.result.detail
        assert isinstance(found, SearchDetail)
        return found.trials


def run(arm: str, folder: Path, arguments: str = "", recipe: SearchRecipe = RECIPE, text: str = SCRIPT) -> Run:
    """Run an arm over the plain script, as the project runs it."""
    script, home = folder / "mine" / "train.py", folder / arm
    script.parent.mkdir(exist_ok=True)
    script.write_text(text, encoding="utf-8")
    asked = f"--lr {{lr}} --width {{width}} --epochs {{epochs}} {arguments}".strip()
    flags = replace(recipe, script=str(script), script_arguments=asked).flags()
    command = [sys.executable, "-m", f"training.{arm}", "--result", str(home / NAME), *flags]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
    return Run(ended.returncode, ended.stdout + ended.stderr, home)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Every arm, over the same trials, of which the first waits until as many run at a time as the arm has slots."""
    folder = tmp_path_factory.mktemp("search")
    return {arm: run(arm, folder, f"--meet {folder}/{arm}-trials --together {SLOTS[arm]}") for arm in COMPARED}


@pytest.mark.parametrize("arm", COMPARED)
def test_an_arm_makes_every_trial_once(ended: dict[str, Run], arm: str) -> None:
    """Of six trials none is missing, and each trained all of its epochs. As many run at a time as the arm has slots,
    and never more: an arm with fewer would wait for ever. With `metricMode min` the best is the least loss."""
    assert ended[arm].code == 0, ended[arm].printed
    trials, result = ended[arm].trials, ended[arm].result
    at_a_time = [sum(other.began <= each.began < other.ended for other in trials) for each in trials]

    assert {trial.state for trial in trials} == {"finished"}
    assert [trial.epochs for trial in trials] == [4] * 6
    assert len({str(trial.config) for trial in trials}) == 6
    assert max(at_a_time) == SLOTS[arm]
    assert result.search is not None
    assert result.search.best_metric == min(trial.metric for trial in trials if trial.metric is not None)
    assert result.scores["loss"] == result.search.best_metric


def test_all_arms_have_the_same_configurations_in_the_same_order(ended: dict[str, Run]) -> None:
    """They are drawn once; weights of a plain script are not known."""
    configurations = [[trial.config for trial in run.trials] for run in ended.values()]

    assert all(each == configurations[0] for each in configurations)
    known = of_results([run.result for run in ended.values()])
    assert (known["configurations"][0], known["epochs"][0]) == (True, True)
    assert known["weights"][0] is None


@pytest.mark.slow
def test_a_population_ends_and_every_checkpoint_arrives(tmp_path: Path) -> None:
    """Though trials fail in their second segments. The others trained an epoch a segment, each from where it began."""
    recipe = replace(RECIPE, epochs=3, search_scheduler="pbt")
    made = run("ray", tmp_path, "--checkpoint {checkpoint}", recipe, GOES_ON)

    assert made.code == 0, made.printed
    segments = {trial.number: trial.segments for trial in made.trials}
    failed = {trial.number for trial in made.trials if trial.state == "failed"}
    assert 1 <= len(failed) < 6
    assert all(segments[number][-1].config["lr"] >= 0.03 for number in failed)
    assert all(own[-1].until == 3 for number, own in segments.items() if number not in failed)
    started = [part for own in segments.values() for part in own if part.epochs]
    assert {part.epochs for part in started} == {1}
    of_others = [part for number, own in segments.items() for part in own if part.origin and part.origin[0] != number]
    assert of_others
    assert all(
        part.digest_before == segments[part.origin[0]][part.origin[1]].digest_after for part in of_others if part.origin
    )
    assert not [*made.folder.rglob("checkpoint*")]


@pytest.mark.parametrize("arm", [BASELINE, "native"])
def test_who_has_no_population_trains_as_many_epochs(tmp_path: Path, arm: str) -> None:
    """By stopping trials and starting others; one that was stopped may have printed more than was decided on."""
    recipe = replace(RECIPE, epochs=4, search_scheduler="pbt", search_reduction=2)
    slow = GOES_ON.replace("loss -= options.lr", "loss -= options.lr; __import__('time').sleep(0.5)")
    made = run(arm, tmp_path, "--checkpoint {checkpoint}", recipe, slow)

    assert made.code == 0, made.printed
    assert len(made.trials) > 6
    assert made.result.epochs_completed == 6
    assert {trial.state for trial in made.trials} == {"finished", "stopped"}
    assert 24 <= sum(trial.epochs or 0 for trial in made.trials) < 24 + len(made.trials)
    assert not [*made.folder.rglob("checkpoint*")]


@pytest.mark.parametrize("arm", [BASELINE, "native", RAY])
def test_a_trial_that_fails_is_counted_and_the_search_goes_on(tmp_path: Path, arm: str) -> None:
    """By an exception, and by a hard exit."""
    made = run(arm, tmp_path, "--broken")

    assert made.code == 0, made.printed
    failed = [trial for trial in made.trials if trial.state == "failed"]
    assert {(0, 1), (1, 3)} == {(int(trial.config["width"]) % 3, trial.exit_code) for trial in failed}
    assert {2} == {int(trial.config["width"]) % 3 for trial in made.trials if trial.state == "finished"}
    assert made.result.search is not None
    assert made.result.search.failed == len(failed)


@pytest.mark.parametrize("arm", [BASELINE, "native", RAY])
def test_a_search_of_which_all_trials_fail_has_no_result(tmp_path: Path, arm: str) -> None:
    """The last lines of the first trial say why."""
    wide = replace(RECIPE, search_space='{"lr": {"log": [0.0001, 0.1]}, "width": {"choice": [3, 6]}}', search_trials=2)

    made = run(arm, tmp_path, "--broken", wide)

    assert made.code == 1
    assert "too wide" in made.printed
    assert not (made.folder / NAME).exists()


@pytest.mark.parametrize("arm", [BASELINE, "native", RAY])
def test_stopping_trains_less_and_keeps_the_same_configurations(
    ended: dict[str, Run], tmp_path: Path, arm: str
) -> None:
    """A script that prints its metric is stopped by a signal."""
    made = run(arm, tmp_path, recipe=replace(RECIPE, epochs=20, search_scheduler="asha", search_reduction=2))

    assert made.code == 0, made.printed
    assert [trial.config for trial in made.trials] == [trial.config for trial in ended[arm].trials]
    assert made.result.search is not None
    assert made.result.search.stopped > 0
    assert made.result.search.finished > 0
    assert made.result.search.failed == 0


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["baseline", "ray"])
def test_a_trial_that_was_stopped_has_not_failed_whatever_it_ends_with(tmp_path: Path, arm: str) -> None:
    """Out of a `finally`: the search asked for that end, and goes on. Where two train at a time, ASHA stops one only
    if a better one has told its metric before: on a busy machine that may be none."""
    recipe = replace(RECIPE, epochs=3, search_trials=4, search_scheduler="asha", metric_pattern="")
    made = run(arm, tmp_path, "--end 3", recipe, OF_KERAS)

    assert made.code == 0, made.printed
    states = {trial.state for trial in made.trials}
    assert states == {"stopped", "finished"} or (arm == "ray" and states == {"finished"})
    assert all(trial.exit_code == 3 for trial in made.trials if trial.state == "stopped")


@pytest.mark.slow
def test_a_script_without_a_seed_did_no_other_work(tmp_path: Path) -> None:
    """Its arms have other weights, by chance, and as many steps and parameters."""
    recipe = replace(RECIPE, epochs=1, search_trials=2, metric_pattern="")
    made = [run(arm, tmp_path, recipe=recipe, text=OF_KERAS) for arm in ("baseline", "native")]

    assert [each.code for each in made] == [0, 0], made
    known = of_results([each.result for each in made])
    assert {"configurations": True, "epochs": True, "steps": True, "parameters": True} == {
        item: value for item, (value, _) in known.items() if value is not None and item != "metric"
    }
    assert known["weights"][0] is None


@pytest.mark.parametrize("arm", [BASELINE, "native", RAY])
def test_an_algorithm_chooses_its_own_configurations(tmp_path: Path, arm: str) -> None:
    """Optuna's TPE, in Tune by OptunaSearch."""
    made = run(arm, tmp_path, recipe=replace(RECIPE, search_algorithm="tpe"))

    assert made.code == 0, made.printed
    assert len({str(trial.config) for trial in made.trials}) == 6


@pytest.mark.parametrize("arm", [BASELINE, "native", RAY])
def test_a_trial_has_its_workers_and_fails_with_one_of_them(tmp_path: Path, arm: str) -> None:
    """In `ray` as many logical CPUs as the workers have would be too few: their drivers hold some. It would not end."""
    recipe = replace(RECIPE, seed=2, workers=1, trial_workers=2, search_trials=3, script_kind="tf-config")
    made = run(arm, tmp_path, recipe=recipe, text=OF_TWO)

    assert made.code == 0, made.printed
    assert {trial.config["width"] % 3 == 0: trial.state for trial in made.trials} == {True: "failed", False: "finished"}
    assert {trial.epochs for trial in made.trials if trial.state == "finished"} == {4}


@pytest.mark.slow
@pytest.mark.skipif(not TORCH, reason=NO_TORCH)
def test_workers_of_a_trial_are_ranks_of_a_script_of_one_process(tmp_path: Path) -> None:
    """Proved once for the arms of a repeat, before their clocks, in each of which a trial ends with the same weights.
    Where it can't be split, no trial is started, and it is said what to type."""
    recipe = replace(RECIPE, workers=1, trial_workers=2, search_trials=2, python=TORCH)
    made = [run(arm, tmp_path, recipe=recipe, text=f"{OF_ONE}# {tmp_path}\n") for arm in ("native", "ray")]

    assert [each.code for each in made] == [0, 0], made
    known = of_results([each.result for each in made])
    assert {True} == {value for value, _ in known.values()}, known
    assert [{trial.state for trial in each.trials} for each in made] == [{"finished"}] * 2
    ranks = [each.result.made_ranks for each in made]
    assert [plain.SHARES["torch"] in (of_arm.words if of_arm else "") for of_arm in ranks] == [True] * 2
    assert NOTE in (tmp_path / "native" / progress.NAME).read_text(encoding="utf-8")
    assert NOTE not in (tmp_path / "ray" / progress.NAME).read_text(encoding="utf-8")
    by_hand = run("baseline", tmp_path, recipe=recipe, text=f"{BY_HAND}# {tmp_path}\n")
    assert 1 == by_hand.code
    assert "pulumi config set trialWorkers 1" in by_hand.printed
    assert not (tmp_path / "baseline" / TRIALS).exists()


def started(arm: str, folder: Path, **more: object) -> subprocess.Popen[bytes]:
    """An arm that was started, over trials that take long; returned when its first trial runs."""
    script, home = folder / "train.py", folder / arm
    script.write_text(SCRIPT, encoding="utf-8")
    asked = "--lr {lr} --width {width} --epochs {epochs}"
    recipe = replace(RECIPE, **{"epochs": 2000, **more}, script=str(script), script_arguments=asked)  # type: ignore[arg-type]
    with (folder / PRINTED).open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", f"training.{arm}", "--result", str(home / NAME), *recipe.flags()],
            cwd=PROJECT, stdout=log, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    while not list((home / TRIALS).glob("*/log.txt")):
        assert running.poll() is None
        time.sleep(0.1)
    return running


def below(running: subprocess.Popen[bytes], text: str) -> list[psutil.Process]:
    """Its processes with this text in their command lines or names."""
    found = []
    for process in psutil.Process(running.pid).children(recursive=True):
        with suppress(psutil.Error):
            if text in " ".join(process.cmdline()) or text in process.name():
                found.append(process)
    return found


@pytest.mark.slow
def test_a_killed_actor_is_a_trial_that_failed(tmp_path: Path) -> None:
    """Its script ends with it, the other trials are made, and Tune's count of failures is ours."""
    running = started("ray", tmp_path, epochs=60)
    try:
        actor = below(running, "ray::ResourceTrainable")[0]
        script = [each for each in below(running, "train.py --lr") if each.pid != running.pid]
        actor.kill()
        psutil.wait_procs(script, timeout=LONGEST_SECONDS)
        assert running.wait(LONGEST_SECONDS) == 0
    finally:
        running.kill()
    search = read(tmp_path / "ray" / NAME).search
    assert search is not None
    assert (search.finished, search.failed) == (5, 1)
    assert FAILED.search((tmp_path / PRINTED).read_text(encoding="utf-8"))


def test_a_killed_process_of_optuna_s_ends_the_run(tmp_path: Path) -> None:
    """Its trials would be missing, and a search with holes is no result; nothing of it is left."""
    running = started("native", tmp_path)
    try:
        children = psutil.Process(running.pid).children(recursive=True)
        below(running, "--member 1")[0].kill()
        assert running.wait(LONGEST_SECONDS) == 1
    finally:
        running.kill()
    _, alive = psutil.wait_procs(children, timeout=LONGEST_SECONDS)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert not (tmp_path / "native" / NAME).exists()


@pytest.mark.parametrize("arm", [BASELINE, "native", RAY])
def test_nothing_is_left_of_a_search_that_is_ended(tmp_path: Path, arm: str) -> None:
    """SIGTERM to the run, as the project ends one after Ctrl-C."""
    running = started(arm, tmp_path)
    try:
        children = psutil.Process(running.pid).children(recursive=True)
        running.terminate()
        running.wait(LONGEST_SECONDS)
    finally:
        running.kill()
    _, alive = psutil.wait_procs(children, timeout=LONGEST_SECONDS)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert not (tmp_path / arm / NAME).exists()

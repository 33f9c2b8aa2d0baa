"""How long a measurement will take: a range, from runs that say it, and what to leave out of one that is too long."""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.stack import expected as plan
from cli.tryout import keep
from infra import budget, estimate, run_history
from infra.estimate import Estimate, Range, wanted
from infra.settings.settings import Settings
from tests.golden import Wording
from tests.typed import tried
from tests.unit.results import make_result
from tests.unit.script.test_facts import arm as of_ranks
from tests.unit.script.test_facts import outcome, rank
from tests.unit.settings_machine import machine, parse
from training.contract import timed
from training.contract.timed import Timed
from training.workloads.cnn.recipe import CnnRecipe
from training.workloads.script.recipe import ScriptRecipe

SCRIPT = "examples/keras_ray.py"
ARGUMENTS = "--num-workers {workers} --epochs {epochs}"
ARMS = ("baseline", "wide", "native", "ray")


def settings(**given: str) -> Settings:
    """Of a stack that measures a script."""
    own = {"workload": "script", "script": SCRIPT, "scriptArguments": ARGUMENTS}
    return parse(own | given, machine(stack="mine"))


def took(arm: str, wall: float = 60.0, began: float = 1000.0, **more: Any) -> Timed:
    """A run of it: 20 s until its first step, 100 steps of 0.2 s in 4 epochs, 5 s between these."""
    recipe = ScriptRecipe(script=SCRIPT, script_arguments=ARGUMENTS).to_dict() | more.pop("recipe", {})
    values: dict[str, Any] = {"startup": 20.0, "step": 0.2, "steps": 100, "between": 5.0, "per_epoch": 25}
    return Timed(arm=arm, recipe=recipe, began=began, wall=wall, **values | {"is_whole": True} | more)


EVERY_ARM = tuple(took(arm, began=1000.0 * number) for number, arm in enumerate(ARMS))


def found(asked: Settings, known: Sequence[Timed] = EVERY_ARM) -> Estimate:
    """Of these, which there is."""
    made = estimate.estimate(wanted(asked), known)
    assert made is not None
    return made


def test_a_measurement_takes_its_runs_and_what_lies_between() -> None:
    """Four repeats of four runs of 60 s with 2 s after each, and the imports before the first; of one run ±25 %."""
    made = found(settings())

    assert Range(low=16 * 45 + 32 + 15, high=16 * 75 + 32 + 25) == made.total
    assert ARMS == tuple(each.side.arm for each in made.sides)


def test_several_runs_say_their_own_range() -> None:
    """The lowest and the highest; and what lies between two runs, where they follow each other.

    Arms that were only tried follow each other without an update, whose time is counted all the same.
    """
    known = [took(arm, wall=wall, began=at) for arm in ARMS for at, wall in ((1000.0, 50.0), (1053.0, 70.0))]
    made = found(settings(), known)

    assert {Range(low=50, high=70)} == {each.whole for each in made.sides}
    assert 3.0 == made.between
    tried = [took(arm, began=60.1 * number) for number, arm in enumerate(ARMS)]
    assert estimate.BETWEEN_SECONDS == found(settings(), tried).between


@pytest.mark.parametrize(
    ("keys", "wall"),
    [
        ({}, 60.0),
        ({"epochs": "8"}, 60.0 + 20.0 + 5.0),
        ({"measureSteps": "40"}, 60.0 - 12.0 - 3.0),
        ({"measureSteps": "1000"}, 60.0),
        ({"seed": "7", "metric": "loss", "unit": "words"}, 60.0),
    ],
)
def test_another_number_of_steps_is_scaled(keys: dict[str, str], wall: float) -> None:
    """By the time of a step and what lies between epochs; what starts and ends a run stays as it is."""
    (side, *_) = found(settings(**keys)).sides

    assert wall * 0.75 == pytest.approx(side.whole.low)


def test_checkpoints_are_scaled_with_the_epochs_that_they_follow() -> None:
    """Two epochs with 10 s for each do not say that fifty take 20 s in all."""
    two = CnnRecipe(epochs=2, checkpoint_epochs=1)
    made = make_result("ray", recipe=two)
    kept = replace(made, seconds=replace(made.seconds, checkpoint=20.0, wall=made.seconds.wall + 20.0))
    without, with_them = (
        timed.scaled(timed.of_result(result, began=0.0), replace(two, epochs=50)) for result in (made, kept)
    )

    assert without is not None
    assert with_them is not None
    assert 50 * 10.0 == pytest.approx(with_them.wall - without.wall)


@pytest.mark.parametrize("keys", [{"workers": "3"}, {"scriptArguments": f"{ARGUMENTS} --deep"}])
def test_other_settings_have_no_estimate(keys: dict[str, str]) -> None:
    """Nobody knows what another number of workers takes; the baseline has none."""
    asked = wanted(settings(**keys))

    assert estimate.estimate(asked, EVERY_ARM) is None
    assert ["wide", "native", "ray"] == estimate.missing(asked, EVERY_ARM)[-3:]
    assert ("baseline" in estimate.missing(asked, EVERY_ARM)) == ("workers" not in keys)


def test_how_long_a_training_is_does_not_follow_from_some_of_its_steps() -> None:
    """Only where epochs are known, by their length and by the arguments, or where as few steps are wanted."""
    recipe = {"measureSteps": 20, "epochs": 1}
    tried = [took(arm, wall=30.0, steps=20, between=0.0, is_whole=False, recipe=recipe) for arm in ARMS]
    no_epochs = [replace(each, per_epoch=None) for each in tried]
    four_epochs = settings()

    assert 30.0 + 80 * 0.2 == pytest.approx(found(four_epochs, tried).sides[0].whole.middle)
    assert estimate.estimate(wanted(four_epochs), no_epochs) is None
    assert 30.0 + 30 * 0.2 == pytest.approx(found(settings(measureSteps="50"), no_epochs).sides[0].whole.middle)


def test_the_workers_curve_has_sides_of_its_own() -> None:
    """Ray with fewer workers, of which nothing is known until it was run."""
    asked = settings(workersCurve="1,2")
    with_one = took("ray", recipe={"workers": 1})

    assert ["ray with 1"] == estimate.missing(wanted(asked), EVERY_ARM)
    assert 5 == len(found(asked, [*EVERY_ARM, with_one]).sides)


def test_a_result_says_what_it_took() -> None:
    """Without what only this project's own probes took, and by its own recipe."""
    result = make_result("ray")
    known = timed.of_result(result, began=5.0)
    recipe = CnnRecipe.from_dict(result.recipe)

    assert result.seconds.wall - result.seconds.probe == known.wall
    assert result.steps.per_epoch == known.per_epoch
    assert known == timed.scaled(known, recipe)
    assert known == timed.from_dict(json.loads(json.dumps(timed.to_dict(known))))


def lines(asked: Settings, known: Sequence[Timed] = EVERY_ARM) -> list[str]:
    """What is said of its budget."""
    return budget.advice(asked, wanted(asked), known, found(asked, known))


def test_what_fits_is_said(wording: Wording) -> None:
    """By the upper end of the range."""
    within, above = (lines(settings(budgetMinutes=minutes)) for minutes in ("21", "20"))

    assert 1 == len(within)
    assert "pulumi config set" not in within[0]
    assert any("pulumi config set" in line for line in above)
    wording("plan", within[0], "within")
    wording("plan", above[0], "above")


def test_each_change_that_is_enough_is_a_line_to_type(wording: Wording) -> None:
    """With what it takes then, and what the verdict can't say."""
    first, *others = lines(settings(budgetMinutes="17", metric="loss", metricTarget="0.1"))

    assert [
        "pulumi config set nativeArm false",
        "pulumi config set wideArm false",
        "pulumi config set repeats 3",
    ] == [line.split("  (")[0].strip() for line in others[:3]]
    assert [["10", "16"]] * 3 == [re.findall(r"\d+", line.split("  (")[1])[:2] for line in others[:3]]
    wording("plan", "\n".join([first, *others]))
    (steps,) = others[3:]
    assert steps.strip().startswith("pulumi config rm metric && pulumi config rm metricTarget && pulumi config set ")
    number = steps.split("measureSteps ")[1].split()[0]
    assert found(settings(measureSteps=number)).total.high <= 17 * 60


def test_the_arm_with_ray_data_may_be_left_out() -> None:
    """By its key; the verdict says the same without."""
    own = {"script": "tests/script/keras_ray_data.py", "dataArguments": f"--input ray-data {ARGUMENTS}"}
    recipe = {"script": own["script"], "dataArguments": own["dataArguments"]}
    known = [took(arm, began=1000.0 * number, recipe=recipe) for number, arm in enumerate((*ARMS, "raydata"))]

    _, *others = lines(settings(budgetMinutes="21", **own), known)

    assert others[0].strip().startswith("pulumi config rm dataArguments")


def test_what_no_one_change_saves_is_saved_by_several(wording: Wording) -> None:
    """One after another, taken at their word; and where not even all of them do, what budget would."""
    together = lines(settings(budgetMinutes="5"))
    too_little = lines(settings(budgetMinutes="1"))
    fitting = settings(budgetMinutes="5", nativeArm="false", wideArm="false", repeats="1")

    assert ["nativeArm", "wideArm", "repeats"] == [line.split()[3] for line in together[1:4]]
    assert found(fitting).total.high <= 5 * 60
    assert "budgetMinutes" in too_little[-1]
    wording("plan", "\n".join(together), "several")
    wording("plan", "\n".join(too_little), "not even all")


def kept(folder: Path, known: Sequence[Timed]) -> None:
    """As `rwi try` leaves it."""
    (folder / ".state/tried").mkdir(parents=True)
    (folder / ".state/tried/x.json").write_text(json.dumps([timed.to_dict(each) for each in known]))
    (folder / ".state/tried/broken.json").write_text("{")


def test_what_make_try_took_is_a_basis(wording: Wording, tmp_path: Path) -> None:
    """Of the same script alone, wherever its path begins; a file that can't be read is none."""
    asked = settings()
    kept(tmp_path, [*EVERY_ARM, *(took(arm, recipe={"script": "examples/other.py"}) for arm in ARMS)])
    basis = run_history.known(asked, wanted(asked), tmp_path)
    other = settings(script="examples/keras_tf_config.py")

    assert EVERY_ARM == basis.runs
    assert "1970-01-01 00:50 UTC" in basis.words
    wording("plan", basis.words)
    assert () == run_history.known(other, wanted(other), tmp_path).runs


def test_make_try_keeps_what_it_took_and_nothing_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later call with the same script, arguments and workers replaces it."""
    monkeypatch.setattr(keep, "FOLDER", tmp_path / ".state/tried")
    for steps in ("20", "50"):
        words = (SCRIPT, "--env", "TOKEN=hidden", "--steps", steps, "--", *shlex.split(ARGUMENTS))
        outcomes = {arm: replace(outcome(rank(0, 1)), arm=arm, seconds=12.0, end={"began": 0.5}) for arm in ARMS}
        keep.keep(tried(*words), {arm: of_ranks(rank(0, 1), name=arm, expected=1) for arm in ARMS}, outcomes)
    (path,) = (tmp_path / ".state/tried").iterdir()
    asked = settings(measureSteps="4")
    basis = run_history.known(asked, wanted(asked), tmp_path)

    assert "hidden" not in path.read_text()
    assert [(12.0, 0.5, 4)] * 4 == [(each.wall, each.startup, each.steps) for each in basis.runs]
    assert estimate.estimate(wanted(asked), basis.runs)


def test_a_preview_warns_where_a_measurement_will_not_fit(wording: Wording, tmp_path: Path) -> None:
    """Of what is known: without a budget, with a larger one, or without a basis nothing is said."""
    asked = settings(budgetMinutes="17")

    assert [] == budget.warnings(asked, tmp_path)
    kept(tmp_path, EVERY_ARM)
    (warning,) = budget.warnings(asked, tmp_path)
    assert {"13", "21", "17"} <= set(re.findall(r"\d+", warning))
    wording("plan", warning)
    assert "pulumi config set nativeArm false" in warning
    assert [] == budget.warnings(settings(), tmp_path)
    assert [] == budget.warnings(settings(budgetMinutes="30"), tmp_path)


def test_the_stack_s_own_runs_go_before(wording: Wording, tmp_path: Path) -> None:
    """Where they tell of every side."""
    asked = parse({}, machine(stack="mine"))
    for arm in ARMS:
        path = tmp_path / f"runs/mine/{arm}/result.json"
        result = make_result(arm)
        replace(result, recipe=asked.recipe.to_dict()).write(path)
    basis = run_history.known(asked, wanted(asked), tmp_path)

    assert "4" in basis.words.split()
    wording("plan", basis.words)
    assert estimate.estimate(wanted(asked), basis.runs)


def test_without_a_basis_the_plan_says_what_to_run(wording: Wording) -> None:
    """A line that is typed as it stands: of a script `rwi try`, of the CNN one repeat."""
    script, cnn = settings(workers="3"), parse({}, machine(stack="mine"))
    of_script = plan.unknown(script, wanted(script), run_history.Basis(runs=(), words=""), {})
    of_cnn = plan.unknown(cnn, wanted(cnn), run_history.Basis(runs=(), words=""), {})

    assert ["baseline", "wide", "native", "ray"] == re.findall("baseline|wide|native|ray", of_script)[:4]
    wording("plan", of_script, "script")
    wording("plan", of_cnn, "cnn")
    assert f"./rwi try {SCRIPT} --workers 3 -- {ARGUMENTS}" in of_script
    assert "./rwi up --stack mine --set repeats=1" in of_cnn
    # With what --set has: else it would run the settings of the file, of which everything is known
    asked = parse({"workers": "3"}, machine(stack="mine"))
    said = plan.unknown(asked, wanted(asked), run_history.Basis(runs=(), words=""), {"workers": "3", "repeats": "4"})
    assert "./rwi up --stack mine --set workers=3 --set repeats=1" in said.replace('"', "'")


def test_the_plan_says_by_what_other_runs_differ(wording: Wording) -> None:
    """`rwi try` again would tell nothing where it can't have the setting; where it can, it is what to type."""
    known = run_history.Basis(runs=EVERY_ARM, words="")
    larger, more = (
        plan.unknown(asked, wanted(asked), known, {}) for asked in (settings(workerCpus="2"), settings(workers="3"))
    )

    wording("plan", larger, "larger")
    wording("plan", more, "more")
    assert "workerCpus" in larger
    assert "./rwi up --stack mine --set repeats=1" in larger
    assert "./rwi try" not in larger

    assert "./rwi try" in more


def test_the_plan_shows_every_phase(wording: Wording) -> None:
    """A line an arm, and the whole."""
    asked = wanted(settings())
    said = plan.shown(asked, found(settings()))

    (row,) = [line for line in said.splitlines() if line.lstrip().startswith("baseline ")]
    assert ["4", "15", "25", "30", "50", "45", "75", "1", "25"] == re.findall(r"\d+", row)
    assert {"13", "21"} <= set(re.findall(r"\d+", said))
    wording("plan", said)


def test_as_many_repeats_as_it_takes_are_a_range(wording: Wording, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 4 to 12 repeats; the budget decides when the last one begins, and so asks for no change that shortens it."""
    auto = settings(repeats="auto", budgetMinutes="25")
    fixed = {repeats: found(settings(repeats=repeats)).total for repeats in ("4", "12")}
    monkeypatch.setattr(run_history, "known", lambda *_: run_history.Basis(runs=EVERY_ARM, words="runs of a test"))

    text = plan.Expected(auto).text()

    assert Range(low=fixed["4"].low, high=fixed["12"].high) == found(auto).total
    wording("plan", text)
    assert [] == budget.warnings(auto)
    assert budget.warnings(settings(repeats="auto", budgetMinutes="17"))

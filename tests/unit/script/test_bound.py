"""A script that nothing distributes: the least that Ray could take, and that nothing more is said of it."""

import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from compare.bound import least_of
from compare.comparison import compare, scalars
from compare.in_short import in_short
from compare.measurement import Context
from compare.run_numbers import Clock
from compare.schema import Comparison
from report import closing, html, table
from tests.golden import Wording
from tests.unit.results import quiet_machine, replaced
from tests.unit.script.measurements import EPOCHS, run_of, start_of
from tests.unit.script.test_facts import rank
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script

ARMS = ("baseline", "wide", "raystart")
NO = "Not worth it here"
ABSENT = dict.fromkeys(("native", "ray"), "nothing distributes it")
STEPS, STEP, IMPORTS = 12, 0.4, 2.0
"""Three epochs of four steps, of so many seconds."""
Measured = Callable[..., Comparison]
Walls = Mapping[str, float]
SLOW_START: Walls = {"baseline": 20.0, "wide": 15.0, "raystart": 14.0}
QUICK_START: Walls = {"baseline": 200.0, "wide": 150.0, "raystart": 14.0}


def test_no_way_of_splitting_takes_less() -> None:
    """Whatever share of the work is split, however evenly, and whatever else a run of Ray does."""
    for seed in range(200):
        for bound, ray in bounds_and_runs(seed):
            assert bound is not None
            assert bound <= ray * (1 + 1e-12), seed


def bounds_and_runs(seed: int) -> Iterator[tuple[float | None, float]]:
    """Draw a work and a way to split it; its bound, and what a run of Ray takes, by numbers of epochs."""
    draw = random.Random(seed)  # noqa: S311 (no secret)
    workers, epochs = draw.randint(1, 16), draw.randint(1, 50)
    imports, once, epoch = draw.uniform(0, 30), draw.uniform(0, 30), draw.uniform(0, 10)
    start = draw.uniform(0, 60)
    split = draw.choice([1.0, draw.random()])
    shares = [draw.choice([1.0, draw.random()]) for _ in range(workers)] if seed % 2 else [1.0] * workers
    slowest = max(shares) / sum(shares)

    def ray(number: int) -> float:
        work = once + number * epoch
        return start + (1 - split) * work + split * work * slowest + draw.choice([0.0, draw.random()])

    alone = Clock(epochs, imports + once + epochs * epoch, epoch)
    least = least_of(alone, start, once + epochs * epoch, workers).clock
    for number in (epochs, 1, 1000):
        yield least.at(number), ray(number)


def steps_of(arm: str) -> list[Any]:
    """Three whole epochs of an arm that trains, of one process."""
    if arm == "raystart":
        return []
    cpus = 2 if arm == "wide" else 1
    more: dict[str, Any] = {"threads": cpus, "threadCpus": [[list(range(cpus)), 1.0]],
                            "stepEnds": [105.0 + STEP * step for step in range(STEPS)], "endedEarly": False,
                            "passes": EPOCHS}  # fmt: skip
    return [rank(0, 1, batch=64, steps=STEPS, **more)]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """The comparison of four repeats that took so long, `beside` others that took so many CPUs while an arm ran."""
    path = tmp_path / "train.py"
    path.write_text("import torch\n")
    script = Script(path=path, kind="plain", modules=frozenset({"torch"}), arguments=(), loads=frozenset({"torch"}))

    def measure(
        walls: Walls,
        *,
        seen: Callable[[str], list[Any]] = steps_of,
        repeats: int = 4,
        noise: float = 0.01,
        beside: Mapping[str, float] = MappingProxyType({}),
        **more: Any,
    ) -> Comparison:
        own = ScriptRecipe(script=str(path), script_arguments="--epochs {epochs}", epochs=3)
        runs = []
        for repeat in range(1, repeats + 1):
            for arm in ARMS:
                wall = walls[arm] * (1 + noise * (repeat if arm == "raystart" else -repeat))
                start = start_of(arm, IMPORTS)
                run = run_of(script, own, arm, repeat, seen=seen(arm), wall=wall, ray_start=start)
                others = quiet_machine(wall, other_cpu_seconds=wall * beside.get(arm, 0.02))
                runs.append(replaced(run, machine=others))
        context = Context(recipe=own, target="local", repeats=repeats, arms=ARMS, absent=ABSENT, **more)
        return compare(runs, context)

    return measure


def nothing_of_ray(found: Comparison) -> None:
    """No claim, no ratio and no number of a run that nobody made."""
    assert found.claim is None
    assert {"ray", "native"} == set(found.absent)
    assert {None} == set(found.ratios.values())
    assert ({}, None, None, None) == (found.break_even, found.break_even_epochs, found.longer, found.projection)
    numbers = scalars(found)
    assert {"answer", "verdict", "repeats"} == {name for name, value in numbers.items() if value is not None}


def test_a_start_that_takes_too_long_is_not_worth_it(measured: Measured, wording: Wording) -> None:
    """With 95 % confidence, over either alternative; it says from how many epochs and workers on that is open."""
    found = measured(SLOW_START)
    bound = found.bound

    assert bound is not None
    assert NO == found.answer
    nothing_of_ray(found)
    for number, (start, shared) in enumerate(
        zip(bound.start_seconds.values, bound.shared_seconds.values, strict=True), 1
    ):
        assert 14.0 * (1 + 0.01 * number) - IMPORTS == pytest.approx(start)
        assert 20.0 * (1 - 0.01 * number) - IMPORTS == pytest.approx(shared)
    assert 0.8 * bound.start_seconds.low + bound.shared_seconds.low / 2 == pytest.approx(bound.least_seconds)
    upper = bound.at_most["wide"].upper
    assert upper is not None
    assert upper < bound.at_most["wide"].median * 1.1 < 1.05
    assert bound.open_from_epochs is not None
    assert bound.open_from_epochs > 3
    wording("script", found.verdict)
    wording("script", in_short(found))


def test_what_can_be_split_is_never_less_than_nothing(measured: Measured) -> None:
    """Of a script that ends sooner than a Python that only imports, Ray's start is all."""
    bound = measured({**SLOW_START, "baseline": IMPORTS / 2}, seen=lambda arm: []).bound

    assert bound is not None
    assert 0.0 == bound.shared_seconds.low
    assert 0.8 * bound.start_seconds.low == bound.least_seconds


def test_where_it_could_be_worth_it_nothing_is_decided(measured: Measured, wording: Wording) -> None:
    """However sure it is that the bound lies above: it is no run of Ray's. It says what to write."""
    found = measured(QUICK_START)
    bound = found.bound

    assert bound is not None
    assert "Not decided" == found.answer
    assert all(ratio.lower and ratio.lower > 1.05 for ratio in bound.at_most.values())
    assert {""} == {ratio.decision for ratio in bound.at_most.values()}
    nothing_of_ray(found)
    assert "examples/torch_ddp.py" in found.verdict
    wording("script", found.verdict)
    wording("script", closing.next_step(found, "mine", {}))


@pytest.mark.parametrize(
    ("walls", "noise", "repeats", "ending", "to_decide"),
    [
        pytest.param(SLOW_START, 0.01, 4, "decided", False, id="lost"),
        pytest.param(QUICK_START, 0.01, 4, "nothing to decide", False, id="open"),
        pytest.param(SLOW_START, 0.08, 2, "goes on", True, id="not sure yet"),
    ],
)
def test_repeats_are_added_only_where_they_may_decide(
    measured: Measured, walls: Walls, noise: float, repeats: int, ending: str, *, to_decide: bool
) -> None:
    """With `repeats auto`; a bound that lies above stays there."""
    found = measured(walls, noise=noise, repeats=repeats, is_auto=True)

    assert ending == found.auto
    assert found.bound is not None
    assert to_decide == (found.bound.repeats_to_decide is not None)


def test_nobody_is_told_to_write_what_probably_loses(measured: Measured, wording: Wording) -> None:
    """Before more repeats have shown it: what to write, and from when on that could be worth it, would contradict."""
    found = measured(SLOW_START, noise=0.08, repeats=2)

    assert found.bound is not None
    assert found.bound.repeats_to_decide is not None
    assert "examples/" not in found.verdict  # not prose: a path
    assert "repeats=auto" in closing.next_step(found, "mine", {})
    wording("script", found.verdict)


def test_one_repeat_decides_nothing(measured: Measured) -> None:
    """However far it loses."""
    found = measured(SLOW_START, repeats=1)

    assert "Not decided" == found.answer
    assert found.bound is not None
    assert (None, None) == (found.bound.open_from_epochs, found.bound.at_most["baseline"].upper)


def test_a_script_whose_steps_are_not_seen_has_a_bound(measured: Measured, wording: Wording) -> None:
    """Over the whole run: how long an epoch takes is not known, nor whether both arms do the same, which is said."""
    found = measured(SLOW_START, seen=lambda _: [])

    assert NO == found.answer
    nothing_of_ray(found)
    assert found.bound is not None
    assert found.bound.open_from_epochs is None
    assert found.bound.open_from_workers is not None
    wording("script", found.verdict)


def test_more_workers_are_named_where_the_start_leaves_room(measured: Measured) -> None:
    """Of 20 s 18 can be split: with a start of 12 s not by 2 workers, by 3 perhaps, and with 20 s never."""
    found = measured({"baseline": 20.0, "wide": 20.0, "raystart": IMPORTS + 12 / 0.8}, noise=0.0001)
    never = measured({"baseline": 20.0, "wide": 20.0, "raystart": IMPORTS + 20 / 0.8}, noise=0.0001)

    assert found.bound is not None
    workers = found.bound.open_from_workers
    assert workers is not None
    assert math.ceil(18 / (20 / 1.05 - 12)) == workers
    assert never.bound is not None
    assert never.bound.open_from_workers is None


def test_arms_that_did_other_work_have_no_bound(measured: Measured) -> None:
    """One process with all CPUs that trains something else is no alternative."""

    def seen(arm: str) -> list[Any]:
        return [replace(each, step_rows=tuple(64 * (step + 1) for step in range(STEPS))) for each in steps_of(arm)] if (
            arm != "wide") else [rank(0, 1, batch=32, steps=STEPS, endedEarly=False)]  # fmt: skip

    found = measured(SLOW_START, seen=seen)

    assert "Not comparable" == found.answer
    assert found.bound is None


@pytest.mark.usefixtures("undrawn")
def test_it_is_shown(measured: Measured, tmp_path: Path, wording: Wording) -> None:
    """On the page, in the table and in the last lines; and what is kept can be read."""
    found = measured(SLOW_START)

    assert found == Comparison.from_json(found.to_json())
    assert {"baseline", "wide"} == set(json.loads(found.to_json())["bound"]["atMost"])
    page = html.render(found, "mine", tmp_path)
    assert in_short(found) in page.replace("&#39;", "'")
    wording("script", table.render(found))
    wording("script", closing.render(found, "mine", None, {}))


def test_a_start_that_others_may_have_slowed_is_measured_again(measured: Measured) -> None:
    """Nothing counts how long it waited, and there is no run of Ray that would be beyond doubt."""
    found = measured(SLOW_START, beside={"raystart": 1.5})

    advice = closing.next_step(found, "local", {}).partition("    # ")[0]
    assert NO == found.answer
    assert None is found.checks["machineQuiet"]
    assert {"1.5", "raystart-1"} <= set(re.findall(r"raystart-\d|\d\.\d", found.reasons["checks.machineQuiet"]))
    assert "may have slowed" in found.reasons["verdict.otherPrograms"]
    assert "./rwi destroy && ./rwi up" == advice

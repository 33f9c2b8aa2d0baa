"""What observations say: each way in which arms are not the same work is named, and what is in order is not."""

import base64
import re
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.tryout import explain, show
from cli.tryout.run_arm import Outcome
from compare.answer import strongest
from tests.golden import Wording
from training.workloads.script import facts, same_work
from training.workloads.script.facts import ArmFacts
from training.workloads.script.observation_files import parse
from training.workloads.script.observations import Observation
from training.workloads.script.observe import guard
from training.workloads.script.recognise import recognise
from training.workloads.script.work_items import ITEMS, Known

ROWS = 256


def one_optimizer(**more: Any) -> dict[str, Any]:
    """As a rank writes it."""
    return {
        "settings": ["momentum=0.9"], "steps": 4, "leftOut": 0, "mostBetween": 1, "first": 0, "rounds": 4, "even": True,
        "rates": [[1e-3, 1e-3, 1e-3]],
    } | more  # fmt: skip


def entered(numbers: int, **more: Any) -> dict[str, Any]:
    """What entered the first module of a rank."""
    return {"types": ["float32"], "numbers": numbers, "sizes": [], "autocast": ["off"]} | more


def trained(always: int, **more: Any) -> dict[str, Any]:
    """Numbers of a rank's parameters that had gradients."""
    return {
        "always": always, "atFirst": 0, "later": 0, "atTimes": 0, "seldom": 0, "phaseShare": 0.0, "share": 1.0,
        "shareError": 0.0,
    } | more  # fmt: skip


def packed(rows: Iterable[int]) -> str:
    """Which rows of all a pass delivered, as an observer writes it."""
    marks = bytearray(ROWS)
    for row in rows:
        marks[row] = 1
    return base64.b64encode(zlib.compress(bytes(marks))).decode()


PARTS = {
    "input": 200_000, "compute": 500_000, "exchange": 200_000, "collective": 0, "optimizer": 50_000,
    "between": 50_000, "save": 0, "report": 0,
}  # fmt: skip
"""Microseconds of a step of one second."""


def rank(
    number: int, world: int, *, batch: int = 32, steps: int = 4, rows: range | None = None, **more: Any
) -> Observation:
    """A rank that did everything right: its own rows, the weights of all, `batch` rows of 64 a step, no whole epoch.

    `did`: other items of its work.
    """
    taken = rows if rows is not None else range(number, ROWS, world)
    work: dict[str, Any] = {
        "optimizers": [one_optimizer(steps=steps)], "digests": {}, "inJoins": {}, "joins": [],
        "parameters": "100 float32", "trained": trained(100), "schedules": [], "ratesByHand": False,
        "inputs": entered(10 * batch * steps), "varies": False, "evaluates": False, "noInput": "",
        "stepsWithoutInput": 0, "boosterParameters": None, "rounds": None,
    }  # fmt: skip
    values: dict[str, Any] = {
        "rank": number, "world": world, "framework": "torch", "threads": 1, "ray": False, "clockOffset": 0.0,
        "stepEnds": [1.0 + step for step in range(steps)], "rowsAtStep": [batch * (step + 1) for step in range(steps)],
        "rowsPerStepReported": None, "datasetRows": ROWS, "datasetIdentity": "one", "datasetContent": "one",
        "epochRows": len(taken),
        "epochBatches": steps, "passes": [[0, False]], "validations": 0, "rowsOfAllSteps": True,
        "rowsAhead": False, "markedPasses": [[0, len(taken), packed(taken)]], "weights": "w",
        "metrics": {}, "metricPoints": [], "reports": 0, "reportSeconds": 0.0, "waitedSeconds": 0.0, "hookSeconds": 0.0,
        "ownSeconds": 0.0, "cpuAtStep": [0.5 * (step + 1) for step in range(steps)], "samples": [],
        "threadCpus": [[list(range(world)), 1.0]], "peakMemoryBytes": None, "gradientBytes": None,
        "endedEarly": True, "notes": [],
        "parts": {"microseconds": {part: [each] * steps for part, each in PARTS.items()}, "noInput": "", "noParts": "",
                  "noExchange": "" if world > 1 else "alone"},
        "cpuWaits": {"training": [4.0, 3.9, 0.01, None], "run": [9.0, 5.0, 0.02, None]},
    }  # fmt: skip
    return parse(values | more | {"work": work | more.pop("did", {})})


def arm(*ranks: Observation, name: str = "native", expected: int = 2) -> ArmFacts:
    """The facts of these."""
    return facts.of_arm(name, expected, ranks)


def outcome(*ranks: Observation) -> Outcome:
    """A run in which these were seen."""
    return Outcome(
        arm="ray", code=0, seconds=1.0, seen=list(ranks), printed="", printed_bytes=0, trace="", end={"began": 0.0}
    )


def alone(**more: Any) -> ArmFacts:
    """Those of one process that had the batch of all ranks."""
    return arm(rank(0, 1, batch=64, **more), name="baseline", expected=1)


def native(*each: dict[str, Any], **both: Any) -> ArmFacts:
    """Those of two ranks with the same changes, and with other ones of each."""
    return arm(*(rank(number, 2, **both, **more) for number, more in enumerate(each or ({}, {}))))


GOOD = native()
BASELINE = alone()


def items(**arms: ArmFacts) -> dict[str, Known]:
    """What these arms have in common, item by item."""
    return same_work.compare({name: one.work for name, one in arms.items()})


def differs(**arms: ArmFacts) -> set[str]:
    """The items in which these arms are known to differ."""
    return {item for item, (known, _) in items(**arms).items() if known is False}


def unknown(**arms: ArmFacts) -> set[str]:
    """The items of which that is not known."""
    return {item for item, (known, _) in items(**arms).items() if known is None}


def test_ranks_that_share_the_work_are_in_order() -> None:
    """Rows are added up over ranks; nothing is wrong, and claim A can be reached."""
    arms = {"baseline": BASELINE, "native": GOOD, "ray": replace(GOOD, arm="ray")}

    assert "" == GOOD.problem
    assert (64, ROWS) == (GOOD.rows_per_step, GOOD.rows_per_epoch)
    assert GOOD.weights_equal[0]
    assert native({}, {"weights": "other"}).weights is None
    assert GOOD.rows_disjoint[0]
    assert facts.ray_changed_nothing(arms)
    assert {True} == {known for known, _ in items(**arms).values()}
    assert show.Verdict("same work", (), ()) == show.verdict(arms, complete=True)


def test_every_item_of_the_list_is_looked_at() -> None:
    """Of PyTorch; what boosters or plain scripts alone have is not."""
    of_others = {"rounds", "boosterParameters", "proof", "trees"}

    assert {item.name for item in ITEMS} - of_others == items(baseline=BASELINE, native=GOOD).keys()


@pytest.mark.parametrize(
    ("item", "change"),
    [
        ("steps", {"steps": 2}),
        ("rowsPerStep", {"batch": 24, "did": {"inputs": entered(1280)}}),
        ("rows", {"epochRows": 64}),
        ("input", {"did": {"inputs": entered(640)}}),
        ("input", {"did": {"inputs": entered(640), "varies": True}}),
        ("input", {"did": {"inputs": entered(1280, types=["bfloat16"])}}),
        ("input", {"did": {"evaluates": True}}),
        ("autocast", {"did": {"inputs": entered(1280, autocast=["bfloat16"])}}),
        ("parameters", {"did": {"parameters": "50 float32"}}),
        ("trained", {"did": {"trained": trained(50)}}),
        ("hyperparameters", {"did": {"optimizers": [one_optimizer(settings=["momentum=0.5"])]}}),
        ("learningRate", {"did": {"optimizers": [one_optimizer(rates=[[2e-3, 2e-3, 2e-3]])]}}),
        ("learningRate", {"did": {"optimizers": [one_optimizer(rates=[[1e-3, 1e-3, 5e-4]])]}}),
        ("learningRate", {"did": {"optimizers": [one_optimizer(rates=[[1e-3, 1e-3, 1e-3], [1e-4, 1e-4, 1e-4]])]}}),
        ("optimizers", {"did": {"optimizers": [one_optimizer(steps=2)]}}),
    ],
)
def test_an_item_that_differs_is_named_alone(item: str, change: dict[str, Any]) -> None:
    """Ranks that did something else than one process did are not comparable with it, and it is said in what."""
    found = {"baseline": BASELINE, "native": native(**change)}

    assert {item} == differs(**found)
    assert show.verdict(found, complete=True).claim is None
    assert show.verdict(found, complete=True).wrong


@pytest.mark.parametrize(("numbers", "largest", "known"), [(1400, 320, True), (700, 320, None), (1200, 280, None)])
def test_an_input_that_varies_is_as_much_up_to_a_factor(numbers: int, largest: int, known: bool | None) -> None:
    """A step may call the network as often as it likes; texts that are cut have another size, and nobody is accused."""
    one = {"varies": True, "inputs": entered(2560, sizes=[640])}
    varying = alone(did=one)
    found = items(baseline=varying, native=native(did={"varies": True, "inputs": entered(numbers, sizes=[largest])}))

    assert found["input"][0] is known


@pytest.mark.parametrize(("size", "rows", "known"), [(10, 32, True), (8, 32, None), (4, 32, False), (10, 34, True)])
def test_numbers_of_a_row_are_as_many(size: int, rows: int, known: bool | None) -> None:
    """Rows with which a sampler pads are rows; of two steps an epoch they are half, which hides no smaller pictures."""
    steps = [rows * (step + 1) for step in range(4)]
    of_rank: dict[str, Any] = {"inputs": entered(3 * rows * size, sizes=[rows * size])}
    baseline = {"inputs": entered(3 * 64 * 10, sizes=[640])}
    found = items(
        baseline=alone(did=baseline, epochRows=128),
        native=native(did=of_rank, rowsAtStep=steps, epochRows=64),
    )

    assert found["input"][0] is known


@pytest.mark.parametrize(("now_and_then", "missed", "known"), [(5, 0, None), (0, 0, False), (0, 2, None)])
def test_a_first_module_that_is_drawn_says_nothing(now_and_then: int, missed: int, known: bool | None) -> None:
    """In other steps another one is the first. If no module is called in some steps of one arm, as its gradients that
    are always there tell, that is another input."""
    work = {"stepsWithoutInput": 2, "inputs": entered(600), "trained": trained(90, atTimes=now_and_then)}
    baseline = alone(did={"stepsWithoutInput": missed})

    assert items(baseline=baseline, native=native(did=work))["input"][0] is known


def passes(*of_ranks: list[list[Any]], key: str = "markedPasses") -> ArmFacts:
    """Ranks that made these passes, each with its first step, its rows, and which they were."""
    return native(*({key: each} for each in of_ranks))


def booster(number: int, world: int, rows: int) -> Observation:
    """A rank that trains trees on so many rows a round."""
    told = {"boosterParameters": "max_depth=6", "rounds": 4, "inputs": entered(28, types=["features"])}
    more: dict[str, Any] = {"framework": "xgboost", "markedPasses": None, "endedEarly": False, "epochRows": rows}
    return rank(number, world, batch=rows, did=told, **more)


def boosters(*rows: int) -> ArmFacts:
    """All of them."""
    return arm(*(booster(number, len(rows), each) for number, each in enumerate(rows)), expected=len(rows))


def epochs(number: int) -> dict[str, Any]:
    """So many whole epochs of four steps."""
    return {"steps": 4 * number, "passes": [[4 * each, True] for each in range(number)], "endedEarly": False}


WITHIN: dict[str, Any] = {"passes": [[0, False]], "endedEarly": False}
"""A run that ends within an epoch."""
OWN, OTHERS = packed(range(128)), packed(range(128, ROWS))
SUMS = [[0, 128, 8128], [4, 128, 900], [8, 128, 77]], [[0, 128, 24512], [4, 128, 900], [8, 128, 78]]
SELDOM = {"optimizers": [one_optimizer(), one_optimizer(steps=40, mostBetween=40, rounds=1)]}
OFTEN = {"optimizers": [one_optimizer(), one_optimizer(steps=20, mostBetween=5)]}
TWICE_THE_RATE = {"optimizers": [one_optimizer(rates=[[2e-3, 2e-3, 2e-3]])]}


def case(what: str, found: ArmFacts, wrong: str = "", *, unknowns: str = "", baseline: ArmFacts = BASELINE) -> Any:
    """Return the parameters of an arm in which these items differ from the baseline, and these are not known."""
    return pytest.param(baseline, found, set(wrong.split()), set(unknowns.split()), id=what)


@pytest.mark.parametrize(
    ("baseline", "found", "wrong", "unknowns"),
    [
        case("no DDP wrapper", native({}, {"weights": "other"}), "weights"),
        case("no sampler", native(rows=range(ROWS)), "rows rowsDisjoint"),
        case("no sampler, and few steps", native(rows=range(32)), "rows rowsDisjoint"),
        case("the same half", native(rows=range(128)), "rowsDisjoint"),
        case(
            "equal numbers of other data sets are other rows",
            native({"datasetIdentity": "0"}, {"datasetIdentity": "1"}, rows=range(128)),
            unknowns="rowsDisjoint",
        ),
        case("data sets not known", native(rows=range(128), datasetIdentity=None), unknowns="rowsDisjoint"),
        case(
            "with replacement a rank has some of another's rows",
            native({"rows": range(128)}, {"markedPasses": [[0, 160, packed(range(64, 192))]]}),
            unknowns="rowsDisjoint",
        ),
        case(
            "twice over half of its rows",
            passes([[0, 128, packed(range(64))]], [[0, 128, packed(range(64, 128))]]),
            "rows",
        ),
        case(
            "arms that all draw may differ by chance",
            passes([[0, 128, packed(range(64))]], [[0, 128, packed(range(64, 128))]]),
            unknowns="rows",
            baseline=alone(markedPasses=[[0, ROWS, packed(range(160))]]),
        ),
        case("as many rows of other data", native(datasetContent="another"), unknowns="rows"),
        case("padding: less than a batch", native({"rows": range(129)}, {"rows": range(128, ROWS)})),
        case(
            "a split by each rank's seed: a few rows, and none is padding",
            native({"rows": range(64)}, {"rows": range(60, 124)}, datasetRows=128),
            "rows rowsDisjoint",
        ),
        case(
            "shared from a later pass on",
            passes([[0, 128, OWN], [2, 128, OWN]], [[0, 128, OTHERS], [2, 128, OWN]]),
            "rowsDisjoint",
        ),
        case("one of five folds is shared", passes(*SUMS, key="passSums"), "rowsDisjoint"),
        case("a fold of one rank alone", passes(SUMS[0], SUMS[1][::2], key="passSums")),
        case("a fold that one rank made twice", passes([*SUMS[0][:2], [4, 128, 901]], SUMS[1], key="passSums")),
        *(
            case(
                f"passes of one rank alone, {number}",
                passes(*([[0, 128, own], *([start, 128, OWN] for start in later)] for own, later in each)),
                unknowns="rowsDisjoint",
            )
            for number, each in enumerate(
                [[(OWN, [4]), (OTHERS, [8])], [(OWN, [4, 8]), (OTHERS, [8])], [(OWN, [4]), (OTHERS, [])]]
            )
        ),
        case("another data set in other steps", native(rowsOfAllSteps=False), unknowns="rows rowsDisjoint"),
        case(
            "another data set in the same steps",
            native(rowsOfAllSteps=False, endedEarly=False),
            unknowns="rows rowsDisjoint",
        ),
        case("another batch on one rank", native({}, {"batch": 16}), "rowsPerStep input"),
        case("another rate on one rank", native({}, {"did": TWICE_THE_RATE}), "learningRate"),
        case("another seed on one rank", native({"rows": range(128)}, {"rows": range(64, 192)}), "rowsDisjoint"),
        case("a baseline on half of the data", GOOD, "rows", baseline=alone(rows=range(ROWS // 2))),
        case("whole epochs", native(**epochs(4)), baseline=alone(**epochs(4))),
        case(
            "fewer whole epochs are no other work", native(**epochs(2)), unknowns="steps", baseline=alone(**epochs(4))
        ),
        case("half the steps of a run without an epoch", native(**WITHIN), "steps", baseline=alone(steps=8, **WITHIN)),
        case(
            "steps that the clock does not see", native(did=SELDOM), unknowns="optimizers", baseline=alone(did=SELDOM)
        ),
        case(
            "optimizers that are not told apart",
            native(did={"moreOptimizers": 3}),
            unknowns="optimizers",
            baseline=native(did={"moreOptimizers": 3}),
        ),
        case("steps that the clock sees", native(did=OFTEN), baseline=native(did=OFTEN)),
        # A round of a booster goes over all rows: no other number of them is padding, but what makes ranks equal.
        case("trees", boosters(30_000, 30_000), unknowns="rowsDisjoint", baseline=boosters(60_000)),
        case("trees, and padding", boosters(30_001, 30_001), unknowns="rowsDisjoint", baseline=boosters(60_001)),
        *(
            case(
                f"trees on {rows} rows",
                boosters(rows, rows),
                "rowsPerStep rows",
                unknowns="rowsDisjoint",
                baseline=boosters(60_000),
            )
            for rows in (15_000, 1_000, 60_000)
        ),
    ],
)
def test_what_is_known_of_two_arms_is_said_of_each_item(
    baseline: ArmFacts, found: ArmFacts, wrong: set[str], unknowns: set[str]
) -> None:
    """What differs is named, what nobody can know is not accused, and all else is known to be equal."""
    arms = {"baseline": baseline, "native": found}

    assert (wrong, unknowns) == (differs(**arms), unknown(**arms))


@pytest.mark.parametrize(
    ("key", "one", "other", "equal"),
    [
        # They differed after a step at which all ranks looked; a rank that did not look then says nothing.
        ("digests", {"1": "a", "2": "b"}, {"1": "a", "2": "c", "4": "d"}, False),
        ("digests", {"1": "a", "2": "b"}, {"1": "a", "3": "b"}, True),
        # Of each model, as another one is trained; if one rank trains a model more, nothing says which are the same.
        ("ends", {"8": "a", "16": "b"}, {"8": "a", "16": "b"}, True),
        ("ends", {"8": "a", "16": "b"}, {"8": "c", "16": "b"}, False),
        ("ends", {"8": "a", "16": None}, {"8": "a", "16": "b"}, None),
        ("ends", {"8": "a"}, {"8": "c", "16": "b"}, None),
    ],
)
def test_weights_are_compared_also_before_the_end(
    key: str, one: dict[str, Any], other: dict[str, Any], equal: bool | None
) -> None:
    """They may have been made equal there."""
    known, why = native({"did": {key: one}}, {"did": {key: other}}).weights_equal

    assert equal is known
    assert key != "digests" or equal or "step 2" in why


@pytest.mark.parametrize(("digest", "equal"), [("b", None), ("c", False)])
def test_what_one_rank_trains_alone_says_nothing_of_all(digest: str, equal: bool | None) -> None:
    """Rank 0 fits another model, with an optimizer of its own: weights are compared up to its first step."""
    digests: list[dict[str, str]] = [{"1": "a", "2": "b", "4": "p"}, {"1": "a", "2": digest, "4": "d"}]
    probe = [one_optimizer(), one_optimizer(steps=2, first=4, rounds=2)]
    of_all = rank(1, 2, did={"digests": digests[1]})
    found = arm(rank(0, 2, steps=6, weights="probe", did={"digests": digests[0], "optimizers": probe}), of_all)
    single = alone(steps=6, did={"optimizers": probe})

    assert found.problem == ""
    assert found.weights_equal[0] is equal
    assert {"steps", "rowsPerStep", "rows", "rowsDisjoint"} <= unknown(baseline=single, native=found)
    assert differs(baseline=single, native=found) == (set() if equal is None else {"weights"})
    assert arm(rank(0, 2, steps=6), of_all).problem


@pytest.mark.parametrize("parameters", [(None, None), ("50 float32", "60 float32")], ids=["layers", "stages"])
def test_ranks_that_hold_parts_of_the_weights_may_need_the_same_rows(parameters: tuple[str | None, ...]) -> None:
    """Of each layer, or some layers each: the rows of one are those of the other, and weights are not equal. Rows that
    are disjoint are known to be, as of weights that are sharded to save memory."""

    def held(rows: range | None, batch: int) -> ArmFacts:
        works: list[dict[str, Any]] = [
            {"parameters": each, "inputs": entered(10 * 4 * batch), "digests": {"1": str(number)} if each else {}}
            for number, each in enumerate(parameters)
        ]
        return arm(*(
            rank(number, 2, rows=rows, batch=batch, did=work, weights=parameters[number] and str(number))
            for number, work in enumerate(works)
        ))  # fmt: skip

    same, own = held(range(ROWS), 64), held(None, 32)

    assert differs(baseline=BASELINE, native=same) == set()
    assert {"rowsPerStep", "rows", "rowsDisjoint", "input"} == unknown(baseline=BASELINE, native=same) - unknown(
        baseline=BASELINE, native=own
    )
    assert {"weights", "parameters", "trained"} == unknown(baseline=BASELINE, native=own)


@pytest.mark.parametrize("item", [each.name for each in ITEMS])
def test_what_is_not_known_of_an_item_wins(item: str) -> None:
    """Whatever text an arm has of it besides: two that are equal where nobody could look are not known to be."""
    one, several = (replace(each, items={item: "1", **each.items}) for each in (BASELINE.work, GOOD.work))
    arms = {"baseline": one, "native": replace(several, unknown={item: "nobody could look"})}

    assert same_work.compare(arms)[item][0] is None


def test_one_worker_is_no_distribution() -> None:
    """It runs, and what it is worth is said."""
    arms = {name: arm(rank(0, 1, batch=64), name=name, expected=1) for name in ("baseline", "native", "ray")}

    def said(given: dict[str, ArmFacts]) -> bool:
        return any("one worker" in words for words in show.findings(given, show.verdict(given, complete=True)))

    assert said(arms)
    for others in ({"baseline": BASELINE, "native": GOOD}, {"baseline": BASELINE}):
        assert not said(others)


def test_reports_that_take_the_time_of_the_steps_are_named() -> None:
    """Ray's controller takes them every two seconds: a report a step makes that of each step."""
    often = arm(rank(0, 2, reports=4, reportSeconds=2.9), rank(1, 2, reports=4, reportSeconds=2.8), name="ray")
    seldom = arm(rank(0, 2, reports=1, reportSeconds=0.1), rank(1, 2), name="ray")

    def named(found: ArmFacts) -> bool:
        return any("report" in words for words in show.findings({"ray": found}, show.Verdict(None, (), ())))

    assert named(often)
    assert not named(seldom)


def test_threads_that_differ() -> None:
    """A script that sets its own number in one arm, or in all, so that `wide` has no more than the baseline."""
    wide = arm(rank(0, 1, batch=64, threads=2), name="wide", expected=1)
    right = {"baseline": BASELINE, "wide": wide, "native": GOOD}
    own = {**right, "native": native(threads=4)}
    fixed = {**right, "wide": arm(rank(0, 1, batch=64), name="wide", expected=1)}
    four = {name: replace(each, threads=(4,)) for name, each in right.items()}

    assert facts.same_threads(right)[0]
    assert facts.same_threads(own)[0] is False
    assert facts.same_threads(fixed)[0]
    assert facts.same_threads(fixed)[1].startswith(facts.OWN_THREADS)
    assert facts.same_threads(four)[0] is False
    assert "OMP_NUM_THREADS" in facts.same_threads(four)[1]
    assert "OMP_NUM_THREADS" not in facts.same_threads(own)[1]
    assert show.verdict(right, complete=True).claim == "same work"
    assert show.verdict(fixed, complete=True).claim == "same work"
    assert facts.same_threads(fixed)[1] in show.findings(fixed, show.verdict(fixed, complete=True))
    assert show.verdict(own, complete=True).claim is None


def test_a_metric_that_never_comes(wording: Wording) -> None:
    """In no arm, or in some alone."""
    seen = {name: outcome(rank(0, 1, metrics=metrics)) for name, metrics in (("baseline", {}), ("ray", {"loss": 1.0}))}

    assert re.search(r"\bloss\b.*\bbaseline\b", show.metrics(seen))
    wording("try", show.metrics(seen), "in some arms")
    wording("try", show.metrics({"baseline": seen["baseline"]}), "in none")


def test_a_batch_of_each_worker_is_weak_scaling_unless_ranks_read_the_same_rows() -> None:
    """It is named, and not called another error. Both have N times the rows a step: whoever divided the batch would
    have ranks that read the same rows still."""
    weak = {"baseline": BASELINE, "native": native(batch=64)}
    alike = {"baseline": BASELINE, "native": native(batch=64, rows=range(ROWS))}
    of_weak, of_alike = (show.verdict(arms, complete=True) for arms in (weak, alike))

    assert (set(), {"rowsPerStep"}) == (differs(**weak), unknown(**weak))
    assert ((same_work.WEAK,), "same script") == (of_weak.unknown, of_weak.claim)
    assert [False, True] == [
        same_work.share_rows({key: each.work for key, each in arms.items()}) for arms in (weak, alike)
    ]
    assert "rowsDisjoint" in differs(**alike)
    assert same_work.WEAK not in (*of_alike.wrong, *of_alike.unknown)
    assert same_work.SAME_ROWS in of_alike.unknown


@pytest.mark.parametrize(
    ("imports", "named"),
    [
        ("import torch", "DistributedSampler"),
        ("import torch, ray.train.torch", "prepare_data_loader"),
        ("import tensorflow", "dataset.shard"),
        ("import xgboost", "DMatrix"),
        ("import numpy", ""),
    ],
)
def test_what_gives_ranks_rows_of_their_own_is_of_the_framework(imports: str, named: str, tmp_path: Path) -> None:
    """Of the one at hand; nothing for one that is not known."""
    path = tmp_path / "train.py"
    path.write_text(f"{imports}\nprint('trains')\n", encoding="utf-8")
    text = explain.own_rows(recognise(path, (), "torchrun"))

    assert named in text
    assert bool(named) == bool(text)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((rank(0, 1),), "1 process trained, 2 should have: the script ignores the number of workers"),
        ((rank(0, 2), rank(1, 2), rank(2, 2)), "3 processes trained, 2 should have"),
        ((rank(0, 1), rank(0, 1)), "2 processes trained, each alone"),
        ((rank(0, 2), rank(1, 2, steps=3)), "different numbers of steps: 3, 4"),
    ],
)
def test_processes_that_are_not_the_ranks_asked_for(ranks: tuple[Observation, ...], words: str) -> None:
    """Too few, too many, none that joined, one that ended before the others."""
    assert words in arm(*ranks).problem


def test_what_is_not_known_is_null_and_never_true() -> None:
    """Rows without numbers, weights without a digest: claim C, and what it lacks."""
    blind: dict[str, Any] = {
        "markedPasses": None,
        "weights": None,
        "rowsAtStep": None,
        "rowsPerStepReported": 64,
        "epochRows": None,
    }
    found = {"native": arm(rank(0, 2, **blind), rank(1, 2, **blind))}

    assert found["native"].weights_equal[0] is None
    assert found["native"].rows_disjoint[0] is None
    assert ("reported", 64) == (found["native"].rows_known, found["native"].rows_per_step)
    assert "same script" == show.verdict(found, complete=True).claim
    assert {"weights", "rowsDisjoint", "rowsPerStep", "rows"} == unknown(**found)


def test_the_claim_has_one_definition() -> None:
    """From the strongest to the weakest; what is unknown raises nothing. An arm that did not train leaves D."""
    assert "same work" == strongest(steps=True, same_work=True, same_result=True)
    assert "same result" == strongest(steps=True, same_work=None, same_result=True)
    assert "same script" == strongest(steps=True, same_work=None)
    assert "same result" == strongest(steps=True, same_work=False, same_result=True)
    assert strongest(steps=True, same_work=False) is None
    assert "it finished" == strongest(steps=False, same_work=True)
    assert "it finished" == show.verdict({"baseline": BASELINE}, complete=False).claim
    assert "it finished" == show.verdict({}, complete=False).claim


def test_the_estimate_has_what_is_imported_once_before_the_first_run(wording: Wording) -> None:
    """Four repeats of one second, and a start of one."""
    few = rank(0, 1, steps=3)
    said = show.estimate({"baseline": arm(few, expected=1)}, {"baseline": outcome(few)}, 20, None)

    assert {"4", "5 s"} <= set(re.findall(r"\d+(?: s)?", said))
    wording("try", said)


@pytest.mark.parametrize(("framework", "noun"), [("tensorflow", "epochs"), ("xgboost", "rounds")])
def test_only_boosters_have_rounds(framework: str, noun: str) -> None:
    """Keras' `fit` is told a number of epochs."""
    told = arm(rank(0, 1, framework=framework, did={"rounds": 4}), expected=1)

    assert noun in show.passes({"baseline": told}, 2).values()


def test_observing_is_only_spoken_of_where_it_took_much() -> None:
    """From the share on from which a measurement speaks of it."""
    few, much = (rank(0, 1, stepEnds=[1.0, 2.0, 3.0], hookSeconds=seconds) for seconds in (0.01, 0.2))

    assert "" == show.observer_cost({"baseline": outcome(few)})
    assert "10.0 %" in show.observer_cost({"baseline": outcome(much)})


def test_a_step_is_the_median_of_the_later_half() -> None:
    """The first ones warm up: one slow step in the middle moves nothing."""
    ends = [0.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0]

    assert 2.0 == rank(0, 1, steps=9, stepEnds=ends).step_seconds
    assert rank(0, 1, steps=3, stepEnds=[0.0, 1.0, 2.0]).step_seconds is None


@pytest.mark.parametrize(
    ("threads", "cpus"),
    [
        ([[[0, 1], 4.0]], (0, 1)),
        ([[[0, 1], 0.2], [[0], 4.0]], (0,)),
        ([[[0], 2.0], [[1], 2.0], [[0, 1, 2, 3], 0.1]], (0, 1)),
        ([[[0, 1], 0.0]], (0, 1)),
        (None, None),
    ],
    ids=["free", "a thread that is bound", "two of them", "no time that could be counted", "a system without affinity"],
)
def test_cpus_are_those_of_the_threads_that_work(threads: Any, cpus: tuple[int, ...] | None) -> None:
    """OpenMP binds threads one by one, and what the others of a process may use is no place where it computes."""
    assert cpus == rank(0, 1, threadCpus=threads).affinity


@pytest.mark.parametrize("items_lost", [guard.STEPS, guard.ROWS, guard.INPUT], ids=["steps", "rows", "input"])
def test_what_the_observer_lost_is_unknown(items_lost: tuple[str, ...]) -> None:
    """In one rank is enough; nothing that is there in spite of it accuses a script."""
    lost = rank(1, 2, steps=3, weights="other", rows=range(0, ROWS, 2), unknown=dict.fromkeys(items_lost, "planted"))
    made = arm(rank(0, 2), lost)
    seen = same_work.compare({"baseline": BASELINE.work, "native": made.work})

    assert {"planted"} == {made.work.unknown[item] for item in items_lost}
    assert not {item for item in items_lost if item in made.work.items}
    assert not [item for item in items_lost if item in seen and seen[item][0] is not None]
    if items_lost == guard.STEPS:
        assert ("", None) == (made.problem, made.weights_equal[0])

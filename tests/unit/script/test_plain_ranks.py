"""A script that trains in one process and is run as ranks by its proof: which arms it has, and what may be claimed."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

from cli.tryout import prove, request, run_arm, show, tryout
from cli.tryout.run_arm import Outcome
from compare.answer import claim_of
from compare.comparison import compare
from compare.fairness import Fairness
from compare.in_short import in_short
from compare.measurement import Context, Run, measure
from compare.schema import Comparison
from compare.value import Check
from report import html, table, words
from tests.golden import Wording
from tests.typed import tried
from tests.unit.script.measurements import EPOCHS, run_of, start_of
from tests.unit.script.test_facts import entered, outcome, rank
from training.contract.result import Steps
from training.workloads.script import commands, facts, plain, proving, same_work
from training.workloads.script.commands import ArmCommand, Sizes
from training.workloads.script.plain import Proof
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import Script, recognise
from training.workloads.script.resolve import ResolvedScript
from training.workloads.script.work_items import PROVED
from training.workloads.search.recipe import SearchRecipe

ALL = ("baseline", "wide", "native", "ray", "raystart")
LINE = {"line": "/home/me/train.py:12"}
SAME: dict[str, Any] = {"outcome": "equal", "plan": {"passes": []}, **LINE}
UNKNOWN = ("later", "own types alone", "unknown")
AS_TF_KERAS: dict[str, Any] = {"framework": "tensorflow", "environment": {"TF_USE_LEGACY_KERAS": "1"}}
TREES: dict[str, Any] = {"framework": "xgboost", "rounds": 8}
STATISTICS = {"outcome": "named", "kind": "statistics", "elseAgrees": True, "plan": {"passes": []}, **LINE}
BY_HAND = {"outcome": "bound", "reason": "by hand", **LINE}
NAMED: list[dict[str, Any]] = [
    STATISTICS | {"kind": kind, "elseAgrees": agrees} for kind in plain.OTHER_WORK for agrees in (True, False)
]
METRICS: list[list[dict[str, float]]] = [[{"test-auc": 0.75}, {"test-auc": 0.7512345}], [{}, {}]]
OTHERS: list[dict[str, Any]] = [
    {"outcome": "equal", "plan": AS_TF_KERAS},
    {"outcome": "equal", "plan": TREES},
    {"outcome": "named", "kind": "statistics", "elseAgrees": True, "plan": AS_TF_KERAS},
    {"outcome": "named", "kind": "own types alone", "elseAgrees": True, "plan": {"framework": "tensorflow"}},
    *(
        {"outcome": "named", "kind": kind, "elseAgrees": False, "plan": TREES, "evidence": {"metrics": metrics}}
        for kind in plain.OTHER_TREES
        for metrics in METRICS
    ),
]
"""Of other frameworks than PyTorch."""
NOT_RUN: list[dict[str, Any]] = [
    *(STATISTICS | {"kind": kind, "elseAgrees": False} for kind in (*plain.APART, *UNKNOWN)),
    *(BY_HAND | {"reason": reason, "error": "Traceback\nKeyError: 1\n"} for reason in plain.UNSPLIT),
    {"outcome": "failed", "reason": "Traceback\nIndexError: 3\n"},
    {"outcome": "failed", "reason": "Traceback\nxgboost.core.XGBoostError: Check failed\n  [bt] (0) libxgboost.so\n"},
    dict(plain.NO_OUTCOME),
    BY_HAND | {"reason": "not in time", "error": "it did not end in time"},
]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """One of PyTorch."""
    path = tmp_path / "train.py"
    path.write_text("import torch\n", encoding="utf-8")
    return recognise(path, ())


def proof(outcome: dict[str, Any]) -> Proof:
    """What an outcome says of a script."""
    return plain.proof_of(outcome, Script(path=Path("train.py"), kind="plain", modules=frozenset(), arguments=()))


def test_what_each_outcome_of_a_proof_says(wording: Wording) -> None:
    """Ranks are measured where they do the work of one process, or other work as those of a port; each is named."""
    said: dict[bool, list[str]] = {True: [], False: []}
    for each in (SAME, *NAMED, *OTHERS, *NOT_RUN):
        said[proof(each).works].append(proof(each).words)

    assert [1 + len(NAMED) + len(OTHERS), len(NOT_RUN)] == [len(said[True]), len(said[False])]
    wording("script", "\n".join([*said[True], "not as ranks:", *said[False]]))


@pytest.mark.parametrize("item", [PROVED, "the same work but for chance"])
def test_what_ranks_say_that_is_not_proved_is_other_work(item: str, tmp_path: Path) -> None:
    """Without it the proof stands."""
    proof = Proof(works=True, item=item, words="proved", plan={})
    nothing = plain.not_proved(tmp_path)
    (tmp_path / plain.NOT_PROVED).write_text("not proved: at backward pass 9 the script trains at train.py:12\n")
    later = plain.but(proof, plain.not_proved(tmp_path))
    (tmp_path / plain.NOT_PROVED).rename(tmp_path / f"rank-another-pod-{plain.NOT_PROVED}")
    assert later == plain.but(proof, plain.not_proved(tmp_path))
    arm = facts.of_arm("native", 2, [rank(0, 2), rank(1, 2)])

    assert later is not None
    assert later.item not in {PROVED, item}
    assert later.item.endswith("train.py:12")
    assert proof is plain.but(proof, nothing)
    assert same_work.compare({"native": plain.proved(arm, proof).work})["proof"][0]
    assert same_work.compare({"native": plain.proved(arm, later).work})["proof"][0] is None


DIFF = "--- train.py\n+++ train.py (ported)\n+import torch.distributed as dist\n-if a < b:\n+if a <= b:\n"
PORT = {"outcome": "port", "diff": DIFF, "encoding": "utf-8"}
PORTS = (None, {"outcome": "none", "reason": "the loader is made in data.py"}, PORT)


def test_what_was_measured_of_ranks_and_what_one_writes_to_have_them(script: Script, wording: Wording) -> None:
    """By the framework whose ranks they are, on this machine and in pods; of PyTorch the port, where one is known."""
    said = []
    for framework in plain.SHARES:
        script.path.write_text(f"import {framework}\n", encoding="utf-8")
        own = recognise(script.path, ())
        of_framework = plain.proof_of({"outcome": "equal", "plan": {"framework": framework}}, own)
        said += [
            plain.ranks_in_words("native", of_framework, 2),
            plain.ranks_in_words("native", of_framework, 2, in_pods=True),
        ]
        said.append(plain.ranks_in_words("ray", of_framework, 2))
        said += [plain.to_write(replace(of_framework, port=each), own, 2)[0] for each in PORTS]

    script.path.write_text("import torch\n", encoding="utf-8")
    of_torch = recognise(script.path, ())
    diffs = [plain.to_write(replace(proof(SAME), port=each), of_torch, 2)[1] for each in PORTS]

    assert ["", "", DIFF] == diffs
    wording("script", "\n".join(dict.fromkeys(said)))


def ported(asked: request.Request, outcome_of_port: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a try says of porting its script, whose port comes to this."""

    def run(arm: ArmCommand, _: object, folder: Path, *__: object) -> None:
        if outcome_of_port:
            (folder / "port.json").write_text(json.dumps(outcome_of_port), encoding="utf-8")

    monkeypatch.setattr(run_arm, "run", run)
    own = recognise(asked.script, ())
    command = commands.proof(own, "python", Sizes(workers=2), {}, asked.script.parent / plain.OUTCOME)
    return prove.before_porting(proof(SAME), own, command, asked, asked.script.parent)


def test_a_port_is_of_one_script_whatever_others_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of one name in two folders have one each, a link leads to the same, and one that is no more is not there. A
    measurement of the same has it with the proof."""
    monkeypatch.setattr(prove, "PROJECT", tmp_path)
    monkeypatch.setattr(prove, "PORTS", tmp_path / "ports")
    monkeypatch.setattr(prove, "_key", lambda asked: str(asked.script.parent.name))
    kept = tmp_path / "proved"
    monkeypatch.setattr(proving.keep_port, "__defaults__", (kept,))
    files = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "train.py").write_text("import torch\n", encoding="utf-8")
        proving.keep(name, SAME, kept)
        files.append((folder / "train.py", tried(str(folder / "train.py"))))
    (tmp_path / "linked").symlink_to(tmp_path / "one")
    diffs = [DIFF, DIFF.replace("dist", "torch")]
    said = [ported(asked, PORT | {"diff": diff}, monkeypatch) for (_, asked), diff in zip(files, diffs, strict=True)]
    ports = [prove.port_of(recognise(path, ())) for path, _ in files]

    assert diffs == [path.read_text(encoding="utf-8") for path in ports]
    assert ports[0] == prove.port_of(recognise(tmp_path / "linked" / "train.py", ()))
    assert all(str(path.relative_to(tmp_path)) in text for path, text in zip(ports, said, strict=True))
    assert diffs[0] == proof(dict(proving.kept("one", kept) or {})).port["diff"]  # type: ignore[index]
    ported(files[0][1], None, monkeypatch)
    assert [False, True] == [path.exists() for path in ports]


def outcome_kept(folder: Path, outcome: dict[str, Any], seconds: float) -> Any:
    """What a run finds of an outcome that was kept so long ago."""
    proving.keep("key", outcome, folder)
    then = time.time() - seconds
    os.utime(folder / "key.json", (then, then))
    return proving.kept("key", folder)


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (SAME, True), (STATISTICS, True), (BY_HAND, True), (dict(plain.NO_OUTCOME), False),
        ({"outcome": "failed", "reason": "OSError: No space left on device"}, False),
        (BY_HAND | {"reason": "no backward"}, False),
        *((BY_HAND | {"reason": reason, "error": "it did not end in time"}, False)
          for reason in ("not in time", "ranks fail", "not in 64 bits")),
    ],
)  # fmt: skip
def test_what_a_moment_may_have_made_is_proved_again(outcome: dict[str, Any], tmp_path: Path, *, counts: bool) -> None:
    """Not by every run of a measurement; what a script does counts for ever."""
    old = 2 * proving.OF_A_MOMENT_SECONDS

    assert outcome == outcome_kept(tmp_path, outcome, seconds=0)
    assert (outcome if counts else None) == outcome_kept(tmp_path, outcome, seconds=old)


def test_no_secret_is_in_an_outcome(tmp_path: Path) -> None:
    """It has the last lines of the script, which may say what it was given; and they are not longer than a reason."""
    file = tmp_path / plain.OUTCOME
    outcome = BY_HAND | {
        "error": f"Traceback\nno access for key-of-mine {'x' * 9999}",
        "plan": [{"sites": ["key-of-mine"]}],
    }
    file.write_text(json.dumps(outcome), encoding="utf-8")
    without = plain.without_outcome(1, "Traceback\nno access for key-of-mine")
    taken = proving.taken(file, ["key-of-mine"], plain.NO_OUTCOME)
    of_none = proving.taken(file, ["key-of-mine"], without)

    assert "key-of-mine" not in json.dumps([taken, of_none])
    assert "[secret]" in str(of_none["reason"])
    assert "[secret]" in proof(dict(taken)).words
    assert len(proof(dict(taken)).words) < 2 * plain.LONGEST
    assert not file.exists()


@pytest.mark.parametrize(
    "sizes", [Sizes(workers=2), Sizes(workers=2, in_pods=True), Sizes(workers=2, gpus=1)], ids=["", "pods", "GPUs"]
)
def test_without_a_plan_no_ranks_are_run(script: Script, sizes: Sizes) -> None:
    """As in a search, where nothing splits a plain script: the bound answers, as before."""
    made = {arm.arm: arm for arm in commands.commands(script, "python", sizes, {})}

    assert {"native", "ray"} <= {name for name, arm in made.items() if arm.absent}
    assert not made["raystart"].absent


def test_each_pod_has_one_rank_and_more_time_for_a_proof(script: Script) -> None:
    """Its CPUs are those of one worker; the other arms are run as here."""
    sizes, program = Sizes(workers=3, plan="plan.json", in_pods=True), str(plain.PROGRAM)
    made = {arm.arm: arm for arm in commands.commands(script, "python", sizes, {})}
    limits = [
        each.command[each.command.index("--seconds") + 1]
        for workers, in_pods in [(3, False), (3, True), (50, True)]
        for each in [commands.proof(script, "python", Sizes(workers=workers, in_pods=in_pods), {}, Path("proof.json"))]
    ]

    assert ("python", program, "member", "plan.json", str(script.path)) == made["native"].command
    assert ("python", program, "ray", "3", "1", "plan.json", str(script.path)) == made["ray"].command
    assert [str(plain.PROOF_SECONDS), str(3 * plain.PROOF_SECONDS), str(plain.MOST_SECONDS)] == limits


def test_ranks_are_run_by_the_mechanism_of_their_framework(script: Script, tmp_path: Path) -> None:
    """They have the arguments of one process, and those of other frameworks are not run."""
    sizes, program = Sizes(workers=3, plan="plan.json"), str(plain.PROGRAM)
    own = replace(script, arguments=("--n", "{workers}"))
    made = {arm.arm: arm for arm in commands.commands(own, "python", sizes, {})}
    other = tmp_path / "other.py"
    other.write_text("import sklearn\n", encoding="utf-8")
    others = {arm.arm: arm for arm in commands.commands(recognise(other, ()), "python", sizes, {})}

    assert ("python", program, "ranks", "3", "plan.json", str(script.path), "--n", "1") == made["native"].command
    assert ("python", program, "ray", "3", "1", "plan.json", str(script.path), "--n", "1") == made["ray"].command
    assert (3, 3) == (made["native"].ranks, made["ray"].ranks)
    proves = commands.proof(script, "python", sizes, {}, tmp_path)
    assert {"0"} == {arm.variables["PYTHONHASHSEED"] for arm in (*made.values(), proves)}
    assert others["native"].absent
    assert others["ray"].absent


@pytest.mark.parametrize(
    ("recipe", "splits"),
    [
        (ScriptRecipe(workers=2), True), (ScriptRecipe(workers=1), False),
        (ScriptRecipe(workers=2, worker_gpus=1), False),
        (SearchRecipe(workers=2), False), (SearchRecipe(workers=2, trial_workers=2), True),
    ],
)  # fmt: skip
def test_where_ranks_of_a_plain_script_are_measured(script: Script, recipe: ScriptRecipe, *, splits: bool) -> None:
    """By several workers without GPUs, wherever they are; in a search by those of a trial."""
    resolved = ResolvedScript(recipe=recipe, script=script, python="python", versions={"ray": "2.60"})

    assert splits is resolved.splits
    assert splits is not bool(resolved.arms({})["native"].absent)
    assert splits is ("mechanism" in resolved.inputs)
    script.path.write_text("import lightgbm\n", encoding="utf-8")
    assert splits is replace(resolved, script=recognise(script.path, ())).splits


@pytest.mark.parametrize(
    ("outcome_of_proof", "ran"),
    [(SAME, ALL[:-1]), (STATISTICS, ALL[:-1]), (BY_HAND, ("baseline", "wide", "raystart"))],
)
def test_the_proof_comes_after_one_process_and_decides_the_rest(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome_of_proof: dict[str, Any], ran: Any
) -> None:
    """It is tried once, and a script that failed in one process is not proved."""
    started: list[str] = []
    failing = False

    def run(arm: ArmCommand, *_: object) -> Outcome:
        started.append(arm.arm)
        return (
            replace(outcome(), code=3, printed="AssertionError: two ranks are needed\n")
            if failing
            else outcome(rank(0, 1, batch=64))
        )

    def proves(*_: object) -> Proof:
        started.append("proof")
        return proof(outcome_of_proof)

    monkeypatch.setattr(tryout, "run", run)
    monkeypatch.setattr(prove, "prove", proves)
    asked = tried(str(script.path))
    made = [ArmCommand(arm=name) for name in ALL]
    of_arms = tryout._run_all(made, script, asked, tmp_path, ArmCommand(arm="proof"))

    assert ["baseline", "proof", *ran[1:]] == started
    assert set(ran) == {arm.arm for arm in of_arms.arms if not arm.absent}
    failing = True
    started.clear()
    tryout._run_all(made, script, asked, tmp_path, ArmCommand(arm="proof"))
    assert ["baseline", "wide", "raystart"] == started


@pytest.mark.parametrize(
    ("outcome_of_proof", "passed", "claim"),
    [
        (SAME, True, "same work"), (STATISTICS, True, "same work"),
        (STATISTICS | {"elseAgrees": False}, None, "same script"),
    ],
)  # fmt: skip
def test_other_work_is_no_claim_a_whatever_else_is_equal(
    outcome_of_proof: dict[str, Any], passed: bool | None, claim: str
) -> None:
    """The item says it; without it the same arms are equal."""
    alone = facts.of_arm("baseline", 1, [rank(0, 1, batch=64)])
    ranks = [facts.of_arm(name, 2, [rank(0, 2), rank(1, 2)]) for name in ("native", "ray")]
    arms = {each.arm: plain.proved(each, proof(outcome_of_proof)) for each in (alone, *ranks)}
    items = same_work.compare({name: each.work for name, each in arms.items()})

    assert passed is items["proof"][0]
    assert {True} == {known for name, (known, _) in items.items() if name != "proof"}
    assert claim == show.verdict(arms, complete=True).claim


BY_FIT: dict[str, Any] = {"framework": "tf_keras", "rowsAtStep": None, "markedPasses": None}
BY_TRAIN: dict[str, Any] = {"framework": "xgboost", "markedPasses": None}


@pytest.mark.parametrize(
    ("outcome_of_proof", "seen", "claim"),
    [
        ({"outcome": "equal", "plan": {"framework": "tensorflow", "rowsOfSteps": [41, 64]}}, BY_FIT, "same work"),
        (OTHERS[3], BY_FIT, "same script"),
        ({"outcome": "equal", "plan": TREES}, BY_TRAIN, "same work"),
        (OTHERS[-1], BY_TRAIN, "same script"),
    ],
)  # fmt: skip
def test_a_proof_counts_the_rows_that_nothing_else_does(
    outcome_of_proof: dict[str, Any], seen: dict[str, Any], claim: str
) -> None:
    """Those of Keras, in one process, too; and that ranks of Keras and of boosters share none."""
    did: dict[str, Any] = {"did": {"boosterParameters": "eta=1", "inputs": entered(12)}} if seen is BY_TRAIN else {}
    alone = facts.of_arm("baseline", 1, [rank(0, 1, batch=64, **seen, **did)])
    arms = [
        alone,
        *(facts.of_arm(name, 2, [rank(number, 2, **seen, **did) for number in (0, 1)]) for name in ("native", "ray")),
    ]
    proved = {each.arm: plain.proved(each, proof(outcome_of_proof)) for each in arms}

    assert "same script" == show.verdict({each.arm: each for each in arms}, complete=True).claim
    assert claim == show.verdict(proved, complete=True).claim
    assert (True, "rows disjoint") == proved["ray"].rows_disjoint


@pytest.fixture
def measured(script: Script) -> Any:
    """The comparison of three repeats of all arms, by a proof; the runs are those of the function `runs`."""

    def compared(outcome_of_proof: dict[str, Any], **more: Any) -> Comparison:
        return compare(*runs(outcome_of_proof, **more))

    def runs(outcome_of_proof: dict[str, Any], **more: Any) -> tuple[list[Run], Context]:
        own = ScriptRecipe(script=str(script.path), workers=2, **more)
        made = [_run(script, own, arm, repeat, proof(outcome_of_proof)) for repeat in (1, 2, 3) for arm in ALL]
        return made, Context(recipe=own, target="local", repeats=3, arms=ALL)

    compared.runs = runs  # type: ignore[attr-defined]
    return compared


def _run(script: Script, recipe: ScriptRecipe, arm: str, repeat: int, of_ranks: Proof) -> Run:
    wall = {"baseline": 60.0, "wide": 50.0, "native": 40.0, "ray": 30.0, "raystart": 10.0}[arm] + repeat / 10
    left_out = arm in of_ranks.left_out
    seen, start = ([], None) if left_out else (_seen(arm), start_of(arm))
    return run_of(script, recipe, arm, repeat, seen=seen, wall=wall, ray_start=start, proof=of_ranks)


def _seen(arm: str) -> list[Any]:
    if arm == "raystart":
        return []
    ends = {"stepEnds": [105.0 + 0.4 * step for step in range(12)], "passes": EPOCHS}
    more: dict[str, Any] = {**ends, "steps": 12, "endedEarly": False}
    if arm in ("native", "ray"):
        return [rank(number, 2, threadCpus=[[[number], 1.0]], **more) for number in (0, 1)]
    cpus = 2 if arm == "wide" else 1
    return [rank(0, 1, batch=64, threads=cpus, threadCpus=[[list(range(cpus)), 1.0]], **more)]


def test_an_arm_that_the_proof_left_out_is_absent_with_its_words(measured: Any) -> None:
    """Ray's start where ranks are measured, and ranks where they are not: the bound answers then. Nothing fails."""
    same, by_hand = measured(SAME), measured(BY_HAND)

    assert ({"baseline", "wide", "native", "ray"}, {}) == (set(same.arms), same.absent)
    assert ("Worth it", "same work", None) == (same.answer, same.claim, same.bound)
    assert {"baseline", "wide", "raystart"} == set(by_hand.arms)
    assert dict.fromkeys(("native", "ray"), proof(BY_HAND).words) == by_hand.absent
    assert by_hand.bound is not None
    assert by_hand.claim is None


def test_a_report_says_what_was_measured_of_ranks_and_has_the_port(measured: Any, wording: Wording) -> None:
    """In one place of the page, as text on a terminal, and in the JSON; nothing is said where no ranks were made."""
    found = measured(SAME | {"port": PORT})
    page, made = html.render(found, "mine", Path("/nowhere")), found.distribution
    text = "\n".join(f"{label}: {text}" for label, text in words.distribution(found))

    assert ["native", "ray"] == list(made.arms)
    assert made == Comparison.from_json(found.to_json()).distribution
    assert 1 == page.count(str(escape(DIFF)))
    assert all(str(escape(text[1:])) in page for _, text in words.distribution(found))
    assert DIFF not in table.render(found)
    assert measured(BY_HAND).distribution is None
    wording("report", text)


def test_an_arm_that_trained_nothing_is_no_alternative(measured: Any) -> None:
    """One that resumed from a checkpoint of the baseline's takes no time, and says nothing against Ray."""
    runs, context = measured.runs(BY_HAND)
    found = compare([_without_steps(run) if run.arm == "wide" else run for run in runs], context)

    assert found.bound is not None
    assert ["baseline"] == list(found.bound.at_most)
    assert "Not decided" == found.answer


def _without_steps(run: Run) -> Run:
    """A run that only imported."""
    steps, seconds = (
        Steps(timed=0, per_epoch=0, seconds=None, exchanged_bytes=None, whole_epochs=False),
        run.result.seconds,
    )
    return replace(run, result=replace(run.result, steps=steps, did={}, seconds=replace(seconds, train=None, wall=3.0)))


@pytest.mark.parametrize(("first", "then"), [(BY_HAND, SAME), (SAME, BY_HAND)])
def test_a_proof_that_changes_between_repeats_leaves_out_those_before(
    measured: Any, first: dict[str, Any], then: dict[str, Any]
) -> None:
    """As that of a machine whose disk was full: not all that could be compared is lost."""
    (old, context), (new, _) = measured.runs(first), measured.runs(then)
    found = compare([*(run for run in old if run.repeat == 1), *(run for run in new if run.repeat > 1)], context)
    of_one = measured(then)

    assert (of_one.arms.keys(), of_one.absent, of_one.answer) == (found.arms.keys(), found.absent, found.answer)
    assert (2, ["repeats.1"]) == (found.repeats, [key for key in found.reasons if key.startswith("repeats.")])


@pytest.mark.parametrize("each", NAMED, ids=lambda each: f"{each['kind']}-{each['elseAgrees']}")
def test_other_work_decides_nothing(measured: Any, each: dict[str, Any]) -> None:
    """Ray is twice as fast here, and with the same work that is *Worth it*, also where it is the same but for what any
    port does otherwise, which is said."""
    found = measured(each)

    assert ("Worth it" if each["elseAgrees"] else "Not decided") == found.answer
    assert ("same work" if each["elseAgrees"] else "same script") == found.claim
    assert proof(each).item in (found.verdict if each["elseAgrees"] else found.reasons["work.proof"])
    if not each["elseAgrees"]:  # other work is proved, so nothing says that it is not known
        said = [found.verdict, in_short(found), found.reasons["speedup"]]
        assert not any("not known" in text for text in said)


def test_a_target_that_is_reached_makes_no_claim_of_other_work(measured: Any) -> None:
    """Only ranks that are not proved, as of a script for several, have claim B then."""
    measurement = replace(measure(*measured.runs(SAME)), is_target_reached=True)
    unknown = Check(None, "why")

    def claim(work: dict[str, Check]) -> str | None:
        return claim_of(measurement, Fairness(checks={"sameWork": unknown}, work=work, failed=()))[0]

    assert "same result" == claim({}) == claim({"proof": Check(True, "")})
    assert "same script" == claim({"proof": unknown})

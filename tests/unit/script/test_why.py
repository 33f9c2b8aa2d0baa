"""`rwi why` without a run: its variables, blocks as rounds, when a run is told to end, and what is kept."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.setup.project import ToolError
from cli.tryout.run_arm import Outcome
from cli.why import blocks, follow
from cli.why import why as why_main
from cli.why.follow import Follower
from compare.value import Missing
from compare.why import AS_IS, INPUT_READY, ArmWhy, Tried
from tests.golden import Wording
from tests.limits import wait_for
from tests.typed import asked_why
from tests.unit.compare.test_why import judged, tried
from tests.unit.report.test_why_page import found as found_causes
from tests.unit.script.test_facts import rank as rank_of
from training.workloads.script.observe import experiment
from training.workloads.script.observe.experiment import Plan
from training.workloads.script.observe.step_parts import PARTS
from training.workloads.script.recognise import Script

PLAN = Plan(
    conditions=[AS_IS, INPUT_READY], absent={"threads 1": "it has no more"}, dropped=2, timed=6, threads=1, world=2,
    loader_workers=0, rows=64.0,
)  # fmt: skip


def block(number: int, condition: str, milliseconds: list[float], **outside: list[float]) -> dict[str, Any]:
    """A block whose steps compute so long, and do something else between them."""
    seconds = {"compute": milliseconds, **outside}
    steps = len(milliseconds)
    return {
        "round": number,
        "condition": condition,
        "seconds": sum(map(sum, seconds.values())) / 1000,
        "turns": steps,
        "steps": steps,
        "again": steps if condition == INPUT_READY else 0,
        "microseconds": {part: [1000 * each for each in seconds.get(part, [0.0] * steps)] for part in PARTS},
        "noParts": "",
        "noInput": "",
        "noExchange": "",
    }


def write(folder: Path, plan: Plan, *ranks: list[dict[str, Any]]) -> None:
    """The files of a run."""
    folder.mkdir(exist_ok=True)
    (folder / experiment.PLAN).write_text(json.dumps(vars(plan)), encoding="utf-8")
    for rank, lines in enumerate(ranks):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"why-{rank}.jsonl").write_text(text, encoding="utf-8")


def read_of(folder: Path, *ranks: list[dict[str, Any]]) -> Tried:
    """What is read of a run by PLAN."""
    write(folder, PLAN, *ranks)
    read = blocks.tried(folder)
    assert read is not None
    return read


def rounds_of(count: int, milliseconds: float) -> list[dict[str, Any]]:
    """A first round, and so many that count."""
    steps = [milliseconds] * 6
    return [block(number, name, steps) for number in range(count + 1) for name in (AS_IS, INPUT_READY)]


def test_the_step_is_that_of_the_slowest_rank(tmp_path: Path) -> None:
    """Of whole rounds alone, without the first."""
    half = block(4, AS_IS, [90.0] * 6)
    read = read_of(tmp_path, [*rounds_of(3, 10.0), half], rounds_of(3, 20.0))

    assert 3 == len(read.rounds)
    assert pytest.approx(0.02) == read.rounds[0].seconds[AS_IS]
    assert pytest.approx(0.02) == read.rounds[0].whole_step
    assert PLAN.absent == read.absent


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    """The ranks write while somebody reads."""
    whole = read_of(tmp_path, rounds_of(2, 10.0), rounds_of(2, 10.0))
    with (tmp_path / "why-1.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"round": 3, "cond')

    assert 2 == len(whole.rounds)
    assert whole == blocks.tried(tmp_path)


def test_the_end_of_an_epoch_on_any_rank_is_not_compared(tmp_path: Path) -> None:
    """Its step is longer on all: that rank validates, and the others wait for it."""
    first = [block(0, AS_IS, [10.0] * 6), block(0, INPUT_READY, [10.0] * 6)]
    validates = block(1, AS_IS, [10.0] * 6, between=[0.0, 0.0, 90.0, 0.0, 0.0, 0.0])
    waits = block(1, AS_IS, [10.0] * 6, exchange=[0.0, 0.0, 90.0, 0.0, 0.0, 0.0])
    ready = block(1, INPUT_READY, [10.0] * 6)
    (read,) = read_of(tmp_path, [*first, validates, ready], [*first, waits, ready]).rounds

    assert pytest.approx(0.01) == read.seconds[AS_IS]
    assert pytest.approx(0.025) == read.whole_step
    assert read.parts is not None
    assert pytest.approx(0.015) == read.parts.seconds["between"]


def test_what_is_done_before_each_step_is_compared(tmp_path: Path) -> None:
    """It is no luck in which block it is."""
    lines = [block(number, name, [10.0] * 6, between=[20.0] * 6) for number in (0, 1) for name in (AS_IS, INPUT_READY)]
    read = read_of(tmp_path, lines, lines)

    assert pytest.approx(0.03) == read.rounds[0].seconds[AS_IS]


def test_steps_without_parts_have_their_mean(tmp_path: Path) -> None:
    """As those of a model whose gradients are sharded."""
    lines = [each | {"microseconds": {}, "steps": 3} for each in rounds_of(1, 10.0)]
    read = read_of(tmp_path, lines, lines)

    assert pytest.approx(0.02) == read.rounds[0].seconds[AS_IS]
    assert read.rounds[0].parts is None


def test_input_that_could_not_be_made_ready_was_not_tried(tmp_path: Path) -> None:
    """As where a script keeps all batches itself, and asks no DataLoader any more."""
    lines = [each | {"again": 0} for each in rounds_of(3, 10.0)]
    read = read_of(tmp_path, lines, lines)

    assert [AS_IS] == read.conditions
    assert INPUT_READY in read.absent


def test_a_reader_gives_what_was_added(tmp_path: Path) -> None:
    """A run of short steps writes much."""
    lines = rounds_of(5, 10.0)
    reader, halves = blocks.Reader(tmp_path), [lines[:7], lines]
    found: list[Tried] = []
    for half in halves:
        write(tmp_path, PLAN, half, half)
        found += filter(None, [reader.read()])

    assert [2, 5] == [len(each.rounds) for each in found]
    assert found[-1] == blocks.tried(tmp_path)


def test_before_a_plan_nothing_is_there(tmp_path: Path) -> None:
    """The ranks start, and train some steps first."""
    assert blocks.tried(tmp_path) is None


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks often, and waits little."""
    monkeypatch.setattr(follow, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(follow, "STALLED_SECONDS", 0.1)


def ended(folder: Path, seconds: float, lines: list[dict[str, Any]]) -> Follower:
    """A follower that has had a run end."""
    write(folder, PLAN, lines, lines)
    with Follower(folder, seconds, lambda _: None) as follower:
        wait_for(lambda: follower.ended)
    return follower


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("rounds", "reason"),
    [
        pytest.param(6, follow.DECIDED, id="decided at a look"),
        pytest.param(7, follow.DECIDED, id="several rounds at once, as with steps below 1 ms"),
        pytest.param(2, follow.TIME_UP, id="its time is up, however few rounds there are"),
        pytest.param(2, follow.STALLED, id="its ranks wait for each other"),
    ],
)
def test_a_run_ends_for_a_reason(rounds: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a file that rank 0 sees, and no look is missed; without progress from outside."""
    is_short = reason == follow.TIME_UP
    monkeypatch.setattr(follow, "STALLED_SECONDS", 100.0 if is_short else 0.1)
    follower = ended(tmp_path, 0.02 if is_short else 100.0, rounds_of(rounds, 10.0))

    assert reason == follower.ended
    assert follower.is_to_be_ended() if reason == follow.STALLED else (tmp_path / experiment.ENOUGH).exists()


@pytest.mark.usefixtures("quick")
def test_a_run_that_does_not_end_when_told_is_ended_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rounds are long, or it catches what ends it."""
    monkeypatch.setattr(follow, "OVERTIME_SECONDS", 0.0)
    monkeypatch.setattr(follow, "STALLED_SECONDS", 100.0)
    write(tmp_path, PLAN, rounds_of(6, 10.0), rounds_of(6, 10.0))
    with Follower(tmp_path, 100.0, lambda _: None) as follower:
        wait_for(follower.is_to_be_ended)

    assert follow.DECIDED == follower.ended
    assert follower.is_to_be_ended()


def test_the_order_of_a_round_is_the_same_on_all_ranks_and_another_in_the_next() -> None:
    """So that no condition is always after the same one."""
    conditions = ["a", "b", "c", "d"]
    orders = [tuple(experiment.order(conditions, number)) for number in range(24)]

    assert orders == [tuple(experiment.order(conditions, number)) for number in range(24)]
    assert len(set(orders)) > 12
    assert {frozenset(conditions)} == {frozenset(order) for order in orders}


def test_the_variables_are_read() -> None:
    """Those of a try, and which arms."""
    asked = asked_why("examples/torch_ddp.py", "--arm", "native", "--arm", "ray", "--limit", "90")

    assert ("native", "ray") == asked.arms
    assert ("native",) == asked_why("examples/torch_ddp.py", "--arm", "native", "--arm", "native").arms
    assert 90 == asked.limit_seconds
    assert ("native", "baseline") == asked_why("examples/torch_ddp.py").arms


def test_a_stack_s_script_is_tried_as_it_is_measured() -> None:
    """Its keys are the variables of the same meaning; --set, and what is typed instead of a key, mean this call."""
    asked = asked_why("--stack", "torch-ddp", "--set", "workers=1")

    assert asked.of_try.script.name == "torch_ddp.py"
    assert ("--epochs", "{epochs}") == asked.of_try.arguments
    assert "examples/.venv" in asked.of_try.python
    assert 1 == asked.of_try.workers
    assert "torch-ddp" == asked.of_try.own_stack
    typed = asked_why("--stack", "torch-ddp", "--workers", "1", "--", "--epochs", "3").of_try
    assert (1, ("--epochs", "3")) == (typed.workers, typed.arguments)


@pytest.mark.parametrize(
    "words",
    [[], ["--stack", "local"], ["a.py", "--arm", "tuned"]],
    ids=["no script", "a stack without a script", "an unknown arm"],
)
def test_what_is_wrong_is_refused(words: list[str], wording: Wording) -> None:
    """With what is allowed."""
    with pytest.raises(ToolError) as refused:
        asked_why(*words)
    wording("causes", str(refused.value))


@pytest.mark.parametrize(
    "line",
    [
        "examples/torch_ddp.py --env TOKEN=very-secret --env B=2 --limit 60 -- --epochs '$N'",
        "--stack torch-ddp --set workers=1 --set environment=TOKEN=very-secret --arm native --arm ray",
        "examples/torch_ddp.py --stack mine",
    ],
    ids=["a script", "a stack", "a script under a name"],
)
def test_the_command_makes_it_again_without_what_is_secret(line: str, wording: Wording) -> None:
    """Names of variables alone."""
    command = asked_why(*shlex.split(line)).command

    assert "very-secret" not in command
    wording("causes", command)


def test_what_was_found_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As JSON, without the values of variables, and with the arms of which nothing is known."""
    monkeypatch.setattr(why_main, "ROOT", tmp_path)
    script = tmp_path / "train.py"
    script.touch()
    given = "--hub-token very-secret --wandb_key=very-secret logger.password=very-secret --lr 0.1 --fast"
    asked = asked_why(str(script), "--env", "TOKEN=very-secret", "--", *shlex.split(given))
    arms: dict[str, ArmWhy | Missing] = {"native": judged(tried({INPUT_READY: 0.5})), "baseline": Missing("3 rounds")}
    script_found = Script(path=script, kind="torchrun", modules=frozenset(), arguments=())
    path = why_main.keep(why_main.kept(asked, script_found, arms, [], ""), "train")
    text = (tmp_path / path).read_text(encoding="utf-8")

    assert Path("results/train/why.json") == path
    assert "very-secret" not in text
    assert {"baseline": "3 rounds"} == json.loads(text)["unknown"]
    shown = ["--hub-token", "…", "--wandb_key=…", "logger.password=…", "--lr", "0.1", "--fast"]
    assert shown == json.loads(text)["arguments"]
    native = json.loads(text)["arms"]["native"]
    assert INPUT_READY == native["causes"][0]["name"]
    assert "faster" == native["effects"][INPUT_READY]["decision"]


def test_an_arm_that_was_asked_for_and_not_tried_has_its_reason() -> None:
    """Who reads the page did not see the run."""
    without = why_main.without_rounds(("native", "baseline", "ray"), {"baseline"}, {"native": "needs Ray Data"})

    assert {"native": Missing("needs Ray Data"), "ray": Missing(why_main.NOT_TRIED)} == without


def test_the_page_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, of the same content."""
    monkeypatch.setattr(why_main, "ROOT", tmp_path)
    page = why_main.write_page(found_causes(), Path("results/train/why.json"))

    assert Path("results/train/why.html") == page
    assert "<h1>" in (tmp_path / page).read_text(encoding="utf-8")


def test_a_folder_that_can_t_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After all that was found has been printed."""
    monkeypatch.setattr(why_main, "ROOT", tmp_path)
    script = tmp_path / "train.py"
    script.touch()
    (tmp_path / "results").touch()
    script_found = Script(path=script, kind="torchrun", modules=frozenset(), arguments=())
    content = why_main.kept(asked_why(str(script)), script_found, {}, [], "")
    with pytest.raises(ToolError):
        why_main.keep(content, "train")


class Followed(Follower):
    """A run that was followed."""

    def __init__(self, reason: str, *, from_outside: bool) -> None:
        super().__init__(Path(), 60.0, print)
        self.ended = reason
        if from_outside:
            self._is_to_be_ended.set()


@pytest.mark.parametrize(
    ("reason", "from_outside", "code", "rounds"),
    [
        (follow.DECIDED, False, 0, 8),
        (follow.DECIDED, True, -9, 8),
        (follow.TIME_UP, True, -9, 1),
        (follow.TIME_UP, False, 1, 0),
        ("", False, 1, 0),
        ("", False, 1, None),
        ("", False, 0, 2),
    ],
    ids=["decided", "it went on", "slow steps", "it died late", "it died", "it died early", "few epochs"],
)
def test_how_a_run_ended_is_said(
    reason: str, from_outside: bool, code: int, rounds: int | None, wording: Wording
) -> None:
    """With what helps: a script that dies of its own is told from one that was ended from outside."""
    outcome = Outcome(
        arm="native",
        code=code,
        seconds=70.0,
        seen=[rank_of(0, 2)],
        printed="ValueError",
        printed_bytes=10,
        trace="",
        end={},
    )
    of_arm = None if rounds is None else tried({INPUT_READY: 1.0}, rounds=rounds)
    script = Script(path=Path("train.py"), kind="torchrun", modules=frozenset({"torch"}), arguments=())
    said = why_main.ended(outcome, of_arm, Followed(reason, from_outside=from_outside), script, 40)
    wording("causes", said)

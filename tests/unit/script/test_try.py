"""How `rwi try` ends: its exit code, the next step, and the stack that --write writes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.setup import project
from cli.setup.project import ToolError
from cli.stack import config as stack_config
from cli.tryout import explain, keep, request, show, tryout, write
from cli.tryout.run_arm import Outcome
from infra.places.local import guard
from tests.golden import Wording
from tests.typed import tried
from tests.unit.script.test_facts import outcome, rank
from training.workloads.script.commands import ArmCommand
from training.workloads.script.observations import Observation
from training.workloads.script.python_environment import PythonError
from training.workloads.script.ray_start import RayStart
from training.workloads.script.recognise import Script, recognise

ARMS = ("baseline", "native", "ray")
REFUSED = "usage: train.py\ntrain.py: error: unrecognized arguments: --epoch 1\n"


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stack files, with the one of the built-in example."""
    monkeypatch.setattr(project, "STACKS", tmp_path)
    monkeypatch.setattr(keep, "FOLDER", tmp_path / "tried")
    (tmp_path / "Pulumi.local.yaml").write_text("# the example\nconfig:\n  target: local\n", encoding="utf-8")
    return tmp_path


def script_in(folder: Path) -> Path:
    """One for torchrun."""
    path = folder / "train.py"
    path.write_text("import torch.distributed\n", encoding="utf-8")
    return path


def end(asked: request.Request, outcomes: dict[str, Outcome]) -> int:
    """The exit code of a try with these outcomes."""
    script = recognise(asked.script, asked.arguments)
    arms = [ArmCommand(arm=name, ranks=1 if name == "baseline" else 2) for name in ARMS]
    return tryout._say(script, tryout.Ran(outcomes, arms), asked)


def well() -> dict[str, Outcome]:
    """All arms trained, and did the same work."""
    both = (rank(0, 2), rank(1, 2))
    return {"baseline": outcome(rank(0, 1, batch=64)), "native": outcome(*both), "ray": outcome(*both)}


class Terminal(io.StringIO):
    """A terminal 80 columns wide, which cuts what is longer."""

    def isatty(self) -> bool:
        """As one is."""
        return True


def test_on_a_terminal_prose_is_wrapped_at_blanks_and_no_command_is_cut() -> None:
    """Neither a path, nor a line that a script printed; into a pipe all is written as it is."""
    path, command = f"/home/me/{'a-folder/' * 9}train.py:48", "`./rwi up --stack " + "x" * 40 + "`"
    quoted = f"{explain.QUOTED}{'printed by the script ' * 9}"
    text = f"  ray: {'a word ' * 9}{path} {'or two ' * 5}{command} and lightning.\n{quoted}"
    shown, piped = Terminal(), io.StringIO()
    for out in (shown, piped):
        tryout._write_prose(text, out)
    lines = shown.getvalue().splitlines()

    assert f"{text}\n" == piped.getvalue()
    assert all(any(whole in line for line in lines) for whole in (path, command, quoted))
    assert [line for line in lines if len(line) > 80] == [f"    {path}", quoted]
    assert " ".join(text.split()) == " ".join(shown.getvalue().split())


def test_no_finding_of_a_try_is_cut_by_a_terminal(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the table above them and the command to copy below may be longer than 80 columns."""
    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    end(tried(str(script_in(stacks))), well())

    said, _, commands = shown.getvalue().partition("\nnext: ")
    table, _, findings = said.rpartition("\n  ray ")
    assert "weights" in table
    assert "rwi up" in commands
    assert [line for line in findings.splitlines()[1:] if len(line) > 80] == []


@pytest.mark.parametrize("failed", [("baseline", "native", "ray"), ("ray",)])
def test_arms_that_failed_have_no_claim(
    stacks: Path, failed: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing finished, so it is not claim D; --write writes nothing."""
    asked = tried(str(script_in(stacks)), "--write")
    crashed = replace(outcome(), code=1, printed="Traceback\nValueError\n")
    code = end(asked, {name: crashed if name in failed else ended for name, ended in well().items()})
    printed = capsys.readouterr().out

    assert 1 == code
    assert not [line for line in printed.splitlines() if line.startswith("claim ")]
    assert all(name in printed.split("no answer: ")[1] for name in failed)
    assert not (stacks / "Pulumi.train.yaml").exists()


def test_an_arm_that_a_busy_machine_made_too_slow_is_no_failure_of_the_measurement(
    stacks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of `up` may take longer than a try, so nothing is said of it; others are named without times, too."""
    late = {"baseline": replace(outcome(), code=guard.DEADLINE, seen=[], end={})}
    code = end(tried(str(script_in(stacks))), late)
    printed = capsys.readouterr().out

    assert 1 == code
    assert "no answer: " in printed
    assert "./rwi up" not in printed
    assert "in time" in show.effect_of_others(late)
    assert "times" in show.effect_of_others(well())
    assert "" == show.effect_of_others({"baseline": replace(late["baseline"], code=1)})


@pytest.fixture
def tries(stacks: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Outcome, Outcome], tuple[list[str], int]]:
    """Tries a script whose first arm comes to one outcome, and every other to another: the arms that ran, and the
    code."""

    def try_it(first: Outcome, others: Outcome) -> tuple[list[str], int]:
        ran: list[str] = []

        def run(arm: ArmCommand, *_: object) -> Outcome:
            ran.append(arm.arm)
            return others if ran[1:] else first

        monkeypatch.setattr(tryout, "run", run)
        asked = tried(str(script_in(stacks)))
        arms = [ArmCommand(arm=name) for name in ARMS]
        return ran, end(asked, tryout._run_all(arms, recognise(asked.script, ()), asked, stacks).outcomes)

    return try_it


@pytest.mark.parametrize(
    ("printed", "tried"),
    [
        pytest.param(REFUSED, ARMS[:1], id="arguments"),
        pytest.param("AssertionError: Torch not compiled with CUDA enabled\n", ARMS[:1], id="a GPU"),
        pytest.param("AssertionError: two ranks are needed\n", ARMS, id="ranks"),
    ],
)
def test_a_first_arm_that_fails_by_itself_ends_the_try(
    tries: Callable[[Outcome, Outcome], tuple[list[str], int]],
    printed: str,
    tried: tuple[str, ...],
    wording: Wording,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every other arm would, too; that is said once. Where it may not, the others are tried."""
    failed = replace(outcome(), code=1, printed=printed)

    assert (list(tried), 1) == tries(failed, failed)
    wording("try", capsys.readouterr().out)


def test_an_arm_that_fails_after_the_first_says_nothing_of_the_others(
    tries: Callable[[Outcome, Outcome], tuple[list[str], int]],
) -> None:
    """Alone the script trains, so what failed has to do with ranks, whatever it says."""
    assert (list(ARMS), 1) == tries(well()["baseline"], replace(outcome(), code=1, printed="KeyError: 'x'\n"))


def test_arms_that_differ_end_with_the_answer_of_make_up(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the last lines; exit code 1, and nothing is written."""
    asked = tried(str(script_in(stacks)), "--write")
    unequal = outcome(rank(0, 2, batch=16), rank(1, 2, batch=16))

    assert 1 == end(asked, well() | {"native": unequal, "ray": unequal})
    assert "Not comparable" in "".join(capsys.readouterr().out.splitlines()[-2:])
    assert not (stacks / "Pulumi.train.yaml").exists()


def test_a_good_try_ends_with_what_to_type_next(
    stacks: Path, capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    """The same command with --write, and the measurement of the stack that this writes; before it, what the single runs
    took, and that this is no answer."""
    path = script_in(stacks)

    assert 0 == end(tried(str(path), "--", "--epochs", "2", "--n", "{workers}"), well())
    printed = capsys.readouterr().out
    last = printed.splitlines()[-3:]
    wording("try", printed[printed.index("\nclaim ") : printed.index("\nnext: ")])
    assert f"./rwi try {path} --write -- --epochs 2 --n {{workers}}" in last[0]
    assert "./rwi up --stack train" in last[-1]


PLAIN = ("baseline", "wide", "raystart")


def plain(stacks: Path, outcomes: dict[str, Outcome], *words: str, text: str = "import numpy\n") -> int:
    """The exit code of a try of a script that nothing distributes."""
    path = stacks / "train.py"
    path.write_text(text, encoding="utf-8")
    asked = tried(str(path), *words)
    arms = [ArmCommand(arm=name) for name in PLAIN] + [ArmCommand(arm=name, absent="why") for name in ("native", "ray")]
    return tryout._say(recognise(path, asked.arguments), tryout.Ran(outcomes, arms), asked)


def took(arm: str, seconds: float, *ranks: Observation) -> Outcome:
    """An arm that ended well after so long."""
    start = RayStart(import_seconds=1.0, trainer="tasks") if arm == "raystart" else None
    return replace(outcome(*ranks), arm=arm, seconds=seconds, ray_start=start, end={"began": 100.0, "left": 0})


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [
        pytest.param((9.0, 7.0, 6.0), False, id="whole runs"),
        pytest.param((9.0, 7.0, 6.0), True, id="steps"),
        pytest.param((9.0, 7.0, 900.0), True, id="a long start"),
    ],
)
def test_a_script_that_nothing_distributes_ends_with_a_bound(
    stacks: Path,
    seconds: tuple[float, ...],
    capsys: pytest.CaptureFixture[str],
    wording: Wording,
    *,
    steps: bool,
) -> None:
    """There is no claim; what was tried is kept for the preview, and --write writes it."""
    more: dict[str, Any] = {"batch": 64, "stepEnds": [105.0 + 0.1 * step for step in range(20)]}
    ranks = {name: [rank(0, 1, **more)] if steps and name != "raystart" else [] for name in PLAIN}
    outcomes = {name: took(name, length, *ranks[name]) for name, length in zip(PLAIN, seconds, strict=True)}

    assert 0 == plain(stacks, outcomes, "--write", "--", "--epochs", "3")
    printed = capsys.readouterr().out
    assert "claim" not in printed
    assert (stacks / "Pulumi.train.yaml").is_file()
    (kept,) = (stacks / "tried").iterdir()
    assert [*PLAIN] == [run["arm"] for run in json.loads(kept.read_text())]
    wording("try", printed[printed.index("nothing distributes it") :].partition("\nwritten")[0])


def test_a_start_that_failed_bounds_nothing(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written, as of any arm that fails."""
    failed = replace(took("raystart", 9.0), code=1, ray_start=None, printed="Traceback\nKeyError\n")
    outcomes = {"baseline": took("baseline", 9.0), "wide": took("wide", 7.0), "raystart": failed}

    assert 1 == plain(stacks, outcomes, "--write")
    assert "raystart failed" in capsys.readouterr().out
    assert not (stacks / "Pulumi.train.yaml").exists()


def test_what_is_written_is_a_stack_of_the_script(stacks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named after it; the built-in example's stays, and so does its comment. It says how to measure and to go back."""
    asked = tried(str(script_in(stacks)), "--write")

    assert 0 == end(asked, well())
    printed = capsys.readouterr().out
    assert "next: ./rwi up --stack train" == printed.splitlines()[-1]
    assert "rm stacks/Pulumi.train.yaml" in printed
    assert {"workload": "script", "script": str(asked.script)} == stack_config.config_of("train")
    assert "the example" not in (stacks / "Pulumi.train.yaml").read_text(encoding="utf-8")
    example = "# the example\nconfig:\n  target: local\n"
    assert example == (stacks / "Pulumi.local.yaml").read_text(encoding="utf-8")
    assert tried(str(asked.script), "--write").write_to == "train"


@pytest.mark.parametrize("text", ["config:\n  workers: '2'\n", "config:\n  script: other/train.py\n"])
def test_a_stack_of_something_else_is_written_only_by_its_name(stacks: Path, text: str) -> None:
    """Refused before anything runs."""
    (stacks / "Pulumi.train.yaml").write_text(text, encoding="utf-8")
    given = (str(script_in(stacks)), "--write")

    with pytest.raises(ToolError, match=r"--stack train-script"):
        tried(*given)
    assert "train" == tried(*given, "--stack", "train").write_to
    assert "new" == tried(*given, "--stack", "new").write_to


@pytest.mark.parametrize(
    ("script", "stack"),
    [
        ("../mine/train.py", "train"), ("a b/my train (2).py", "my-train-2"), ("-x-.py", "x"), ("größe.py", "gr-e"),
        ("smoke.py", "script-smoke"), ("sweep-a.py", "script-sweep-a"), ("-.py", "script"), ("a" * 200, "a" * 80),
    ],
)  # fmt: skip
def test_the_name_is_one_of_a_stack(script: str, stack: str) -> None:
    """Whatever the file is called."""
    assert stack == write.stack_of(script)
    assert stack == project.checked_stack_name(stack)


def test_a_way_back_loses_nothing_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file is removed, one as git has it is checked out; one with changes is theirs to edit."""
    monkeypatch.setattr(project, "STACKS", tmp_path)

    assert "rm stacks/Pulumi.new.yaml" == write.way_back("new")
    (tmp_path / "Pulumi.theirs.yaml").touch()
    assert "" == write.way_back("theirs")


@pytest.mark.parametrize(
    ("given", "python"),
    [
        ("HERE/mine", "HERE/mine/bin/python"), ("HERE/mine/", "HERE/mine/bin/python"),
        ("HERE/mine/bin/python", "HERE/mine/bin/python"), ("mine", "HERE/mine/bin/python"),
        (".venv", "HERE/.venv/bin/python"), ("./.venv", "HERE/.venv/bin/python"),
        # So that what is missing is named rightly.
        ("HERE/none", "HERE/none/bin/python"), (".none", "HERE/.none/bin/python"),
        ("HERE/mine/bin/pyton", "HERE/mine/bin/pyton"),
        # A program of PATH stays one, beside a folder of its name.
        ("python3", "python3"), ("python", "python"), ("/usr/bin/python9", "/usr/bin/python9"),
    ],
)  # fmt: skip
def test_an_environments_folder_is_its_python(
    given: str, python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also named from another folder than the project's: `.venv` is not the project's own."""
    for name in (".venv", "mine"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").touch()
    (tmp_path / "python").mkdir()
    monkeypatch.chdir(tmp_path)

    asked = tried("a.py", "--python", given.replace("HERE", str(tmp_path)))

    assert python.replace("HERE", str(tmp_path)) == asked.python
    assert asked.python == asked.keys["python"] or not given.startswith("HERE")


def test_a_script_without_its_framework_is_told_of_python(tmp_path: Path) -> None:
    """First the environment that there is; then two commands that make one, each on its line."""
    error = PythonError(
        "a.py imports torch",
        "uv venv x/.venv && uv pip install --python x/.venv/bin/python torch",
        "x/.venv/bin/python",
    )
    asked = tried("a.py", "--python", "python3", "--workers", "1", "--", "--n", "1")
    lines = explain.python_problem(error, asked).splitlines()

    assert "  ./rwi try a.py --python ../mine/.venv --workers 1 -- --n 1" == lines[1]
    assert ["  uv venv x/.venv", "  uv pip install --python x/.venv/bin/python torch"] == lines[-2:]
    assert "--python x/.venv" in lines[2]
    assert "why:\n  fix" == explain.python_problem(PythonError("why", "fix"), asked)


def test_a_python_that_was_mistyped_is_told_of_the_one_that_is_there(tmp_path: Path, wording: Wording) -> None:
    """In its folder, nothing is to be made; with another name of an environment that may be meant."""
    from training.workloads.script import python_environment

    (tmp_path / "env" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "env" / ".venv" / "bin" / "python").touch()
    script = recognise(script_in(tmp_path), ())
    for typed in ("env/.venv/bin/pyton", "env/.vnev", "env/other"):
        with pytest.raises(PythonError) as refused:
            python_environment.checked(request.interpreter(str(tmp_path / typed)), script)

        wording("try", refused.value.why.replace(str(tmp_path), "<tmp>"), typed)
        assert ("pyton" in typed) == (refused.value.fix == "")


def test_nothing_is_installed_into_the_systems_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script gets an environment beside it."""
    from training.workloads.script import python_environment

    monkeypatch.setattr(python_environment, "modules", lambda _: frozenset({"pip"}))
    script = Script(path=tmp_path / "a.py", kind="ray-torch", modules=frozenset({"ray.train"}), arguments=())
    for own in (True, False):
        monkeypatch.setattr(python_environment, "is_environment", lambda _, own=own: own)
        with pytest.raises(PythonError) as refused:
            python_environment.check(script, {"python": "3.11.0"}, "/usr/bin/python3")

        by_pip, by_uv = "/usr/bin/python3 -m pip install ", r"venv .*/\.venv && .*install --python .*\.venv/bin/python"
        assert own == refused.value.fix.startswith(by_pip)
        assert own != bool(re.search(by_uv, refused.value.fix))


@pytest.mark.parametrize(
    ("arguments", "epochs"),
    [
        (("--epochs", "3"), 3), (("--epochs=3", "-n", "2"), 3), (("--num-epochs", "7"), 7), (("t.max_epochs=5",), None),
        (("max_epochs=5",), 5), (("--epochs", "{epochs}"), None), (("--warmup-epochs", "2"), None), ((), None),
    ],
)  # fmt: skip
def test_the_epochs_of_the_arguments_are_those_of_the_estimate(arguments: tuple[str, ...], epochs: int | None) -> None:
    """So that one of its lines is of the command that was typed."""
    assert epochs == show.epochs_of(arguments)

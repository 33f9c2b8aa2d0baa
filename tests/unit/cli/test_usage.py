"""What a user types after `make`: the help, a target that there is none of, a variable that would have no effect."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.setup import usage
from cli.setup.project import ToolError, is_on
from cli.stack.config import KEYS_OF_TRY
from cli.sweep.plan import ALIASES
from infra.settings.table import every_key

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = usage.targets(MAKEFILE)
NOT_RUN = ("BOOTSTRAP=true", "IN_VENV=true")


def make(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`make` with these words, whose recipes do nothing; with this Python, because a shim of pyenv's takes thrice as
    long."""
    variables = {**os.environ, "PYTHON": sys.executable, **environment}
    return subprocess.run(
        ["make", *NOT_RUN, *words], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )


def meant(refusal: str) -> str:
    """The command of a refusal."""
    command = re.search(r"did you mean: (.*)$", refusal, re.MULTILINE)
    return command[1] if command else ""


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["preview", "workers=3"], 'make preview SET="workers=3"'),
        (["up", "WORKERS=3"], 'make up SET="workers=3"'),
        (["preview", "repeats=1", "EPOCHS=2"], 'make preview SET="epochs=2 repeats=1"'),
        (["preview", "LEARNING_RATE=0.1", "SET=epochs=2"], 'make preview SET="epochs=2 learningRate=0.1"'),
        (["preview", "SCRIPT=../mine/train.py"], 'make preview SET="script=../mine/train.py"'),
        (["up", "ARGS=--epochs 2"], "make up SET=\"scriptArguments='--epochs 2'\""),
        (["up", "stack=mine"], "make up STACK=mine"),
        (["up", "set=workers=3", "STACK=ci"], 'make up STACK=ci SET="workers=3"'),
        (["report", "RESULTS=latest"], "make report RESULT=latest"),
        (["try", "SCRIPTS=x.py", "STEPS=9"], "make try STEPS=9 SCRIPT=x.py"),
        (["history", "STACKK=mine", "PRINT=1"], "make history STACK=mine"),
    ],
)
def test_a_variable_that_no_target_takes_is_refused_with_what_was_meant(words: list[str], command: str) -> None:
    """It would have no effect, and something else would be measured; nothing runs."""
    ended = make(*words)

    assert 2 == ended.returncode
    assert command == meant(ended.stderr).replace("BOOTSTRAP=true IN_VENV=true ", "")


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["plan", "SET=epochs=2"], 'make preview SET="epochs=2"'),
        (["smoke"], "make up STACK=smoke"),
        (["smoke", "STACK=minikube"], "make up STACK=smoke"),
        (["tensorboard", "LIVE=1", "STACK=mine"], "make report TENSORBOARD=1 LIVE=1 STACK=mine"),
        (["logs", "JOB=train-1"], "STACK=ci make jobs JOB=train-1"),
        (["logs"], "STACK=ci make jobs JOB=…"),
        (["stop", "JOB=a b"], 'STACK=ci make jobs STOP=1 JOB="a b"'),
        (["test-cluster", "CLUSTER_ENV=file"], "make test CLUSTER=1 CLUSTER_ENV=file"),
    ],
)
def test_a_removed_target_says_what_to_type(words: list[str], command: str) -> None:
    """With the variables that were given; nothing runs."""
    ended = make(*words, **({"STACK": "ci"} if command.startswith("STACK=") else {}))

    assert 2 == ended.returncode
    (line,) = [line for line in ended.stderr.splitlines() if words[0] in line and "  " in line]
    assert command == re.sub(r" (?:BOOTSTRAP|IN_VENV)=true", "", line.partition(":  ")[2])


@pytest.mark.parametrize("words", [["jobs", "STOP=yes"], ["diagnose", "LOGS=no"], ["bench", "QUICK=true"]])
def test_a_switch_is_1_or_0(words: list[str]) -> None:
    """Nobody knows what another word means; one of the environment is refused by the tool itself."""
    ended = make(*words)

    assert 2 == ended.returncode
    assert words[1] in ended.stderr
    assert 0 == make(words[0], f"{words[1].partition('=')[0]}=0").returncode
    with pytest.raises(ToolError, match="STOP=yes"):
        is_on("STOP", {"STOP": "yes"})
    assert [False, False, False, True] == [is_on("A", given) for given in ({}, {"A": ""}, {"A": "0"}, {"A": "1"})]


READ_BY_MAKE = [
    ("report", "TENSORBOARD"),
    ("bench", "QUICK"),
    ("bench", "JSON"),
    ("lesson", "JSON"),
    ("test", "CLUSTER"),
    ("test", "SLOW"),
]


@pytest.mark.parametrize(("target", "switch"), READ_BY_MAKE)
def test_a_switch_of_the_environment_is_1_or_0_too(target: str, switch: str) -> None:
    """Where no tool reads it, but the Makefile; for other targets it means nothing."""
    ended = make("-n", target, **{switch: "yes"})

    assert 2 == ended.returncode
    assert f"{switch}=yes" in ended.stderr
    assert 0 == make("-n", "history", **{switch: "yes"}).returncode
    assert 0 == make("-n", target, **{switch: "0"}).returncode
    assert {name for _, name in READ_BY_MAKE} == set(re.findall(r"call on,(\w+)", MAKEFILE))


def test_what_replaces_a_removed_target_takes_its_variables() -> None:
    """The line that is told is one that make accepts, and no target is both removed and there."""
    for removed, words in usage.REMOVED.items():
        target, *own = words.split()
        assert [word for word in own if not TARGETS[target].takes(word.partition("=")[0])] == []
        assert removed not in TARGETS


def test_what_the_environment_gives_stays_in_the_command() -> None:
    """`STACK=ci make preview workers=3` previews that stack."""
    ended = make("preview", "workers=3", STACK="ci", SET="epochs=2")

    assert 'STACK=ci make preview BOOTSTRAP=true IN_VENV=true SET="epochs=2 workers=3"' == meant(ended.stderr)


@pytest.mark.parametrize("words", [["preview", "FOO=1"], ["history", "SET=epochs=2"], ["up", "TO=x"], ["FOO=1"]])
def test_what_nothing_is_near_is_refused_too(words: list[str]) -> None:
    """Without a guess."""
    ended = make(*words)

    assert (2, "") == (ended.returncode, meant(ended.stderr))
    assert words[-1].partition("=")[0] in ended.stderr


@pytest.mark.parametrize("flags", [["-s"], ["-j4"], ["-k", "-i"], ["-n"]])
def test_flags_of_make_change_nothing(flags: list[str]) -> None:
    """Nor do they of what is right."""
    assert 2 == make(*flags, "up", "workers=3").returncode
    assert 0 == make(*flags, "up", "STACK=ci", "SET=workers=3").returncode


def test_what_make_is_given_from_outside_is_let_through() -> None:
    """Flags and variables of the environment, those of a make around this one, and a shell that completes words."""
    assert 0 == make("up", MAKEFLAGS="-s", WORKERS="3").returncode
    assert 0 == make("up", MAKEFLAGS=" -- V=1", MAKELEVEL="1").returncode
    completion = ["make", "-npq", "__BASH_MAKE_COMPLETION__=1", ".DEFAULT"]
    assert "dashboard" in subprocess.run(completion, cwd=ROOT, capture_output=True, text=True).stdout  # noqa: PLW1510


def test_a_sweep_takes_any_setting() -> None:
    """It says itself which there are."""
    assert 0 == make("sweep", "learningRate=0.1 0.2", "KEEP=1").returncode


@pytest.mark.parametrize(("target", "near"), [("tets", "test"), ("tests", "test"), ("previw", "preview"), ("xyz", "")])
def test_a_target_that_there_is_none_of_names_the_nearest(target: str, near: str) -> None:
    """Also where a folder has that name, which make takes for done."""
    ended = make(target)

    assert 2 == ended.returncode
    assert ([near] if near else ["help"]) == re.findall(r"`make (\w+)`", ended.stderr)


def test_values_are_no_shell_code(tmp_path: Path) -> None:
    """Names and values of a refused variable reach no shell."""
    hacked = tmp_path / "hacked"
    for value in (f"$$(touch {hacked})", f"'; touch {hacked}; '", f'"; touch {hacked}; "', f"`touch {hacked}`"):
        assert 2 == make("up", f"workers={value}").returncode

    assert not hacked.exists()


def test_names_of_other_commands_mean_the_same_setting() -> None:
    """What `make try` and `make sweep` call a setting is understood everywhere."""
    for name, key in (KEYS_OF_TRY | ALIASES).items():
        if name not in usage.OF_EVERY_TARGET:
            with pytest.raises(ToolError) as refused:
                usage.check(["up"], {name: "1"}, {})

            assert f'make up SET="{key}=1"' == meant(str(refused.value))


def test_the_settings_are_those_of_the_program() -> None:
    """Read from Pulumi.yaml by the system's Python, which has no parser of YAML."""
    declared = usage.settings((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))

    assert set(every_key()) == set(declared)


def test_every_target_takes_what_its_tool_reads() -> None:
    """STACK, and SET where settings are read."""
    without = {name for name, target in TARGETS.items() if "STACK" not in target.variables}

    assert {"bench", "lesson", "check", "test", "template", "clean", "help"} == without
    assert all(TARGETS[name].takes("SET") for name in ("up", "preview", "destroy", "sweep", "recovery"))


def test_help_lists_every_target_in_its_group() -> None:
    """From the Makefile's own lines, so that none can be forgotten; plain `make` shows it."""
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    groups = dict(re.findall(r"^(\S[^\n:]*)\n((?:  .*\n|\n  .*\n)+)", shown, re.MULTILINE))

    assert ["Start here", "Measure", "Look", "Your script", "Cluster", "Develop"] == list(groups)
    lines = re.findall(r"^  ([a-z][a-z-]*)  +(\S.*)$", "".join([*groups.values()][1:]), re.MULTILINE)
    assert list(TARGETS) == [name for name, _ in lines]
    assert set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)) == set(TARGETS)
    assert all("make" in line for line in groups["Start here"].splitlines() if line)
    assert {"STACK=", "SET="} <= set(re.findall(r"\b(?:STACK|SET)=", groups["Start here"]))
    assert max(map(len, shown.splitlines())) <= usage.WIDTH


def test_the_first_commands_are_ones_that_work() -> None:
    """Each of them, by the same check that refuses others."""
    for command, _ in (*usage.FIRST, *usage.GENERAL):
        words = re.sub(r"^(\w+=\S+) make (\w+)", r"make \2 \1", command).replace('"', "").split()[1:]
        goals = [word for word in words if "=" not in word]
        usage.check(goals, {word.partition("=")[0]: "x" for word in words[1:] if word[0].isupper()}, {})


def test_colour_is_for_a_terminal() -> None:
    """And for one that wants it; never in a pipe."""
    command = [sys.executable, "-m", "cli.setup.usage", "help"]
    piped = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    on_terminal = _on_terminal(command, {**os.environ, "NO_COLOR": ""})

    assert "\x1b" not in piped
    assert "\x1b[1m" in on_terminal
    assert "\x1b" not in _on_terminal(command, {**os.environ, "NO_COLOR": "1"})
    assert piped.split() == re.sub(r"\x1b\[\dm", "", on_terminal).split()


def _on_terminal(command: list[str], environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=theirs):
        os.close(theirs)
        shown = b""
        while part := _read(ours):
            shown += part
    os.close(ours)
    return shown.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the other end is closed
        return b""

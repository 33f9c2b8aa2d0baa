"""The door: its help, what is typed wrong, and that no text names a command or an option that there is not."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import click
import pytest

from cli import door
from cli.door import parse
from cli.setup.project import ROOT
from training.machine import command_line

MOST = 17
"""Commands at the first level, so that one is found."""
WIDTH, HEIGHT = 80, 24
"""Of a terminal; the last line is its prompt."""


def commands(group: click.Group = door.door, *above: str) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


def test_there_are_so_few_that_one_is_found() -> None:
    """At the first level."""
    first = {words[0] for words in commands()}

    assert len(first) <= MOST


def help_of(words: list[str]) -> str:
    """What `--help` after these words prints on a terminal of 80 columns."""
    context = door.door.make_context("./rwi", [], resilient_parsing=True)
    for word in words:
        assert isinstance(context.command, click.Group)
        command = context.command.get_command(context, word)
        assert command, words
        context = click.Context(command, info_name=word, parent=context)
    return context.get_help()


@pytest.mark.parametrize("words", [(), *commands()], ids=" ".join)
def test_help_fits_a_terminal(words: tuple[str, ...]) -> None:
    """All of it is seen at once, that of the door, too."""
    lines = help_of(list(words)).splitlines()

    assert [] == [line for line in lines if len(line) > WIDTH]
    assert len(lines) < HEIGHT


WRONG: list[tuple[str, str]] = [
    ("upp", "./rwi up"),
    ("preveiw", "./rwi preview"),
    ("destory --stack ci", "./rwi destroy --stack ci"),
    ("jobs lst", "./rwi jobs list"),
    ("report histroy 1 latest", "./rwi report history 1 latest"),
    ("bench leson", "./rwi bench lesson"),
    ("history 1 2", "./rwi report history 1 2"),
    ("submit train.py", "./rwi jobs submit train.py"),
    ("version", "./rwi --version"),
    ("help", "./rwi --help"),
    ("UP", "./rwi up"),
    ("--stack ci up", "./rwi up --stack ci"),
    ("--set workers=3 up --stack ci", "./rwi up --set workers=3 --stack ci"),
    ("--stack=ci jobs list", "./rwi jobs list --stack=ci"),
    ("report --result 3", "./rwi report open --result 3"),
    ("up -s ci", "./rwi up --stack ci"),
    ("outputs -j", "./rwi outputs --json"),
    ("destroy --yes", "./rwi destroy"),
    ("status --json", "--json is an option of compare-commits, outputs, "),
    ("up --stak ci", "./rwi up --stack ci"),
    ("try train.py --worker 2", "./rwi try train.py --workers 2"),
    ("try train.py --pyhton=x", "./rwi try train.py --python=x"),
    ("outputs --jsno", "./rwi outputs --json"),
    ("up --workers 3", "./rwi up --set workers=3"),
    ("up --epochs=8", "./rwi up --set epochs=8"),
    ("preview --global-batch-size 64", "./rwi preview --set globalBatchSize=64"),
    ("up workers=3", "./rwi up --set workers=3"),
    ("up STACK=smoke", "./rwi up --stack smoke"),
    ("outputs JSON=1", "./rwi outputs --json"),
    ("up WORKERS=3 EPOCHS=2", "./rwi up --set workers=3 --set epochs=2"),
    ("up ''", "./rwi up --help"),
    ("up ci", "./rwi up --stack ci"),
    ("up workers 3", "./rwi up --set workers=3"),
    ("up workers = 3", "./rwi up --set workers=3"),
    ("up --set workers 3", "./rwi up --set workers=3"),
    ("up --set workers", "key=value"),
    ("up --set 'workers 3'", "key=value"),
    ("up --set =3", "key=value"),
    ("up --set a=1 --set a=2", "a is given twice"),
    ("up --set", "requires an argument"),
    ("up --stack a/b", "letters, digits"),
    ("up --stack 'a b'", "letters, digits"),
    ("up --stack -x", "letters, digits"),
    ("up --stack", "./rwi up --help"),
    ("set", "KEY=VALUE"),
    ("set workers 3", "./rwi set workers=3"),
    ("set 'workers = 3'", "./rwi set workers=3"),
    ("set --workers 3", "./rwi set workers=3"),
    ("sweep --workers '1 2'", "./rwi sweep 'workers=1 2'"),
    ("set workers", "key=value"),
    ("set workers=3 workers=4", "workers is given twice"),
    ("sweep", "KEY="),
    ("try", "SCRIPT"),
    ("try train.py --steps 3", "8<=x<=10000"),
    ("try train.py --workers two", "'two' is not a valid integer"),
    ("try train.py --workers 0", "x>=1"),
    ("try train.py --env A", "NAME=value"),
    ("try train.py --env PYTHONPATH=/x", "install what it points at"),
    ("try train.py --epochs 3", "./rwi try train.py -- --epochs 3"),
    ("try train.py --python x --lr 0.1", "./rwi try train.py --python x -- --lr 0.1"),
    ("try train.py -e 3", "./rwi try train.py -- -e 3"),
    ("try train.py lr=0.1", "./rwi try train.py -- lr=0.1"),
    ("try -- train.py --epochs 1", "./rwi try train.py -- --epochs 1"),
    ("try python3.11 train.py --epochs 3", "./rwi try train.py -- --epochs 3"),
    ("try torchrun --nproc-per-node 2 train.py", "./rwi try train.py"),
    ("try train.py --set workers=3", "./rwi try train.py --workers 3"),
    ("try train.py --json", "--json is an option of compare-commits, outputs, "),
    ("try 'a b.py' --x 'c d'", "./rwi try 'a b.py' -- --x 'c d'"),
    ("compare-commit main HEAD train.py", "./rwi compare-commits main HEAD train.py"),
    ("compare-commits main HEAD", "SCRIPT"),
    ("compare-commits main HEAD train.py --epochs 3", "./rwi compare-commits main HEAD train.py -- --epochs 3"),
    ("test tests/unit", "./rwi test -- tests/unit"),
    ("why train.py --limit 1", "5<=x<=3600"),
    ("report history 1", "two results"),
    ("doctor --logs", "--archive"),
    ("bench recovery --of driver", "'worker', 'head'"),
    ("bench arms --repeats 0", "1<=x<=100"),
    ("destroy ci", "./rwi destroy --stack ci"),
    ("destroy 'c i'", "unexpected extra argument (c i)"),
]
"""What is typed, and what the answer has."""


@pytest.mark.parametrize(("line", "answer"), WRONG, ids=[line for line, _ in WRONG])
def test_what_is_typed_wrong_is_answered(
    line: str, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what was meant, the status of a wrong call, and nothing done."""
    monkeypatch.setattr("cli.command.Command.invoke", refuse_valid)

    assert 2 == door.run(shlex.split(line))
    assert answer in capsys.readouterr().err


def refuse_valid(self: click.Command, context: click.Context) -> int:
    """Run what refuses before it does anything: two commands look at how their options go together."""
    name = context.command_path.partition(" ")[2]
    if name not in ("report history", "doctor"):
        pytest.fail(f"{name} would have run")
    assert self.callback
    with pytest.raises(click.UsageError) as refused:
        context.invoke(self.callback, **context.params)
    raise refused.value


def test_a_wrong_call_ends_soon_and_leaves_nothing(tmp_path: Path) -> None:
    """As a process, from another folder; no module that takes long is imported for it."""
    code = "import sys; from cli import door; door.run(sys.argv[1:]); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, "up", "--workers", "3"],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert not {"ray", "tensorflow", "pulumi", "numpy", "rich", "yaml", "infra"} & set(done.stdout.split())
    assert [] == list(tmp_path.iterdir())


def test_a_wrong_call_is_answered_in_the_way_it_was_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From another folder, with a blank in the path."""
    monkeypatch.setenv(command_line.CALLED, command_line.called_as("../a b/rwi"))

    door.run(["up", "ci"])
    door.run(["try", "train.py", "--epochs", "3"])

    lines = [line.rpartition(":  ")[2] for line in capsys.readouterr().err.splitlines()]
    assert ["../a b/rwi", "up", "--stack", "ci"] == shlex.split(lines[1])
    assert ["../a b/rwi", "try", "train.py", "--", "--epochs", "3"] == shlex.split(lines[4])


def test_what_is_not_typed_is_nothing_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that has no default is not one that starts in the folder where a command is typed."""
    monkeypatch.chdir(tmp_path)
    submit, why = parse(["jobs", "submit", "x.py"]).params, parse(["why"]).params

    assert ("", "", "") == (submit["folder"], why["script"], why["python"])
    assert tmp_path / "x.py" == (ROOT / submit["script"]).resolve()


def test_its_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    """As pyproject.toml has it."""
    assert 0 == door.run(["--version"])

    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"{version}\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("./rwi prev", "preview"),
        ("./rwi jobs sub", "submit"),
        ("./rwi up --stack kub", "kubernetes"),
        ("./rwi set workersC", "workersCurve="),
        ("./rwi try train.py --li", "--limit"),
    ],
)
def test_a_shell_completes_commands_options_stacks_and_settings(
    typed: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As bash asks for it; the others use the same."""
    asks = {"_RWI_COMPLETE": "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    for name, value in asks.items():
        monkeypatch.setenv(name, value)
    with suppress(SystemExit):
        door.run([])

    assert f"plain,{expected}\n" == capsys.readouterr().out


def lines_in(text: str) -> Iterator[str]:
    """The command lines of this project in a text of messages: up to what explains them, or a quotation mark."""
    for match in re.finditer(r"\./rwi (?=[a-z-])((?:'[^'\n]*'|\"[^\"\n]*\"|[^`\"'\n;)|&])+)", text):
        line = re.split(r"\s{2,}|\s#|\s\(|,\s|:\s|\.(?:\s|$)", match[1])[0]
        yield line.strip()


def in_golden() -> list[tuple[str, str]]:
    """The lines that users read."""
    files = sorted((ROOT / "tests/golden").glob("*.txt"))
    return [(file.name, line) for file in files for line in lines_in(file.read_text(encoding="utf-8"))]


NOT_TYPED = {
    "cli/docs/outputs_table.py": "a table of the docs",
    "cli/pull_request/__main__.py": "CI calls it so, in a checkout",
    "cli/tryout/write.py": "a comment in a file for git",
    "compare/fairness.py": "kept in results, which must not differ by who calls",
    "infra/settings/cluster.py": "the meaning of a key, for the docs",
    "training/contract/recipe.py": "the meaning of a key, for the docs",
    "training/workloads/script/plain.py": "kept in results, which must not differ by who calls",
}
"""Files that may have a line of `./rwi` as it stands, and why nobody reads it as one to type."""


@cache
def product() -> list[tuple[str, ast.Module]]:
    """The modules that a user's messages come from, without those that have no line to type."""
    tops = ("bench", "cli", "compare", "infra", "report", "training")
    paths = [path for top in tops for path in sorted((ROOT / top).rglob("*.py"))]
    texts = [(path, path.read_text(encoding="utf-8")) for path in paths]
    has_line = re.compile(r"\./rwi |\b(?:rwi|again)\(")
    return [(str(path.relative_to(ROOT)), ast.parse(text)) for path, text in texts if has_line.search(text)]


def texts_in(tree: ast.Module) -> Iterator[str]:
    """The string literals that are no docstring."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def test_messages_ask_how_a_command_is_called() -> None:
    """`./rwi` works in the project's folder alone: `command_line.rwi` has the line as its user calls it."""
    fixed = [where for where, tree in product() if any("./rwi " in text for text in texts_in(tree))]

    assert [] == sorted(set(fixed) - NOT_TYPED.keys())


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("say('type ./rwi up')", 1),
        ("say(f'{name}: ./rwi up')", 1),
        ("A = 'x'\n'./rwi up is read by nobody who types it'", 0),
        ("say(rwi('up'))", 0),
    ],
)
def test_literals_are_found(source: str, count: int) -> None:
    """Those of messages, and no docstring."""
    assert count == sum("./rwi " in text for text in texts_in(ast.parse(source)))


def test_a_line_is_as_its_user_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """By plain Pulumi, which no variable names, or by `rwi` from another folder."""
    monkeypatch.delenv(command_line.CALLED, raising=False)
    plain = command_line.again("destroy", "up", stack="my stack")
    monkeypatch.setenv(command_line.CALLED, "../x/rwi")

    assert "pulumi destroy --stack 'my stack' && pulumi up --stack 'my stack'" == plain
    lines = command_line.again("destroy", "up", stack="ci").split(" && ")
    assert [["../x/rwi", name, "--stack", "ci"] for name in ("destroy", "up")] == [line.split() for line in lines]
    assert "../x/rwi up" == command_line.again("up")


def called_in(tree: ast.Module) -> Iterator[str]:
    """The first arguments of calls that make a line to type."""
    for node in ast.walk(tree):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in ("rwi", "again"):
            commands = node.args[:1] if name == "rwi" else node.args
            values = [part.value for part in commands if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            yield from (line for value in values for line in lines_in(f"./rwi {value}"))


def in_code() -> list[tuple[str, str]]:
    """The lines in string literals of the code, docstrings too, and those that it has made."""
    found = []
    for where, tree in product():
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        lines = [line for text in texts if isinstance(text, str) for line in lines_in(text)]
        found += [(where, line) for line in [*lines, *called_in(tree)]]
    return found


def test_no_message_names_a_command_that_there_is_not() -> None:
    """Nor an option: each is parsed as if it was typed. A command may be named without its arguments."""
    problems = [f"{where}: ./rwi {line}: {problem}" for where, line in in_golden() + in_code()
                if (problem := problem_of(line))]  # fmt: skip

    assert len(in_golden()) > 80
    assert [] == problems


def problem_of(line: str) -> str:
    """What the parser says of a line; "" where it can be typed, or is a command's name."""
    words = shlex.split(line)
    if "--help" in words:
        return ""
    try:
        parse(words)
    except click.exceptions.NoArgsIsHelpError:
        return ""
    except click.MissingParameter as error:
        return "" if all(word.isalpha() for word in words) else error.format_message()
    except click.UsageError as error:
        return error.format_message()
    except ValueError as error:
        return str(error)
    return ""

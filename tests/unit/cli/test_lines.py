"""Lines that can be pasted where they are printed: into the call where the value came from there, else `rwi set`."""

from __future__ import annotations

import re
import resource
import shlex
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from cli import door
from cli.command import NAME
from cli.setup import project
from cli.setup.project import ToolError
from cli.stack import change, edit, lines, settings
from cli.stack import config as stack_config
from training.machine.command_line import FROM


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stack files. A call that is checked sets `NAME`, which is given back after the test."""
    monkeypatch.setattr(project, "STACKS", tmp_path)
    monkeypatch.setenv(NAME, "up")
    return tmp_path


def test_what_is_printed_works_in_the_folder_where_rwi_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another project's folder, and a blank on the way: the path of a stack's file, and Pulumi's own lines."""
    home, there = tmp_path / "a home", tmp_path / "my work"
    (home / "stacks").mkdir(parents=True)
    there.mkdir()
    monkeypatch.setattr(lines, "ROOT", home)
    monkeypatch.chdir(home)
    monkeypatch.setenv(FROM, str(there))
    (home / "stacks" / "Pulumi.mine.yaml").touch()
    (shown,) = shlex.split(project.shown_file(home / "stacks" / "Pulumi.mine.yaml"))
    words = shlex.split(lines.plain("pulumi refresh --yes && pulumi up", "mine"))

    assert (there / shown).is_file()
    assert ["../a home"] * 2 == [word for before, word in pairwise(words) if before == "-C"]
    monkeypatch.setenv(FROM, str(home / "stacks"))
    assert "-C" not in lines.plain("pulumi up", "mine")


def mine(stacks: Path, text: str) -> Path:
    """The file of stack `mine`, with that text."""
    file = stacks / "Pulumi.mine.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def fixes(stack: str, **overrides: str) -> list[str]:
    """The lines of a refusal."""
    with pytest.raises(ToolError) as refused:
        settings.load(stack, overrides)
    return [
        line.partition(":")[2].strip()
        for line in str(refused.value).splitlines()
        if line.strip()[:4] in ("fix:", "or: ")
    ]


@pytest.mark.parametrize(
    ("command", "overrides", "line"),
    [
        ("pulumi config set workers 2", {}, "./rwi set workers=2"),
        ("pulumi config rm workers", {}, "./rwi set workers="),
        (
            "pulumi config set scriptArguments -- '--n {workers} $X'",
            {},
            "./rwi set scriptArguments='--n {workers} $X'",
        ),
        ("pulumi config set storage …", {}, "./rwi set storage=…"),
        ("pulumi config set workers 2", {"workers": "9", "epochs": "3"}, "./rwi up --set workers=2 --set epochs=3"),
        ("pulumi config set epochs 2", {"workers": "9"}, "./rwi set epochs=2"),
        ("pulumi config rm workers", {"workers": "9"}, "./rwi up --set workers=2"),
        ("pulumi config rm datasetPath", {"datasetPath": "/x"}, "./rwi up"),
        ("pulumi config rm worker && pulumi config set workers 3", {"worker": "3"}, "./rwi up --set workers=3"),
        ("pulumi config rm worker && pulumi config set workers 3", {}, "./rwi set worker= workers=3"),
        (
            "pulumi config set --secret rayToken",
            {},
            'eval "$(./rwi project env)" && pulumi config set --secret rayToken',
        ),
        ("pulumi refresh --yes && pulumi up", {}, 'eval "$(./rwi project env)" && pulumi refresh --yes && pulumi up'),
        ("pulumi config rm 'a:b'", {}, "eval \"$(./rwi project env)\" && pulumi config rm 'a:b'"),
    ],
)
def test_a_line_of_pulumi_is_one_of_rwi(
    monkeypatch: pytest.MonkeyPatch, command: str, overrides: dict[str, str], line: str
) -> None:
    """Whole, and in the middle of a message."""
    monkeypatch.setenv(NAME, "up")

    assert line == lines.for_rwi(command, "local", overrides)
    text = f"x: `{command}`, then\n  uv venv && {command}    (or less)\n"
    expected = f"x: `{line}`, then\n  uv venv && {line}    (or less)\n"
    assert expected == lines.for_rwi(text, "local", overrides)  # not prose: a command


@pytest.mark.parametrize(
    ("overrides", "lines_of_fixes"),
    [
        ({"workers": "3"}, ["up --set workers=2", "up --set workers=3 --set share=true", "set epochs=2"]),
        ({"epochs": "0"}, ["set workers=2", "set share=true", "up --set epochs=2"]),
    ],
)
def test_alternatives_to_a_setting_of_the_call_are_of_the_call_too(
    overrides: dict[str, str], lines_of_fixes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tries a value once is not told to change the stack's file for good; of another problem the file is fixed."""
    monkeypatch.setenv(NAME, "up")
    first, second, third = ("workers 2", "share true", "epochs 2")
    text = f"""\
  workers = 3
    fix:     pulumi config set {first}
    or:      pulumi config set {second}

  epochs = 0
    fix:     pulumi config set {third}"""

    shown = lines.for_rwi(text, "local", overrides)

    assert lines_of_fixes == re.findall(r"(?:fix|or): +\./rwi (.*)", shown)


def test_a_stack_is_named_in_the_line() -> None:
    """But for the default."""
    assert "./rwi set workers=2 --stack mine" == lines.for_rwi("pulumi config set workers 2", "mine", {})
    asks = lines.for_rwi("pulumi config set --secret rayToken", "ray", {})
    assert asks == 'eval "$(./rwi project env --stack ray)" && pulumi config set --secret rayToken'


def test_a_refused_setting_is_fixed_where_it_came_from(stacks: Path) -> None:
    """The call, or the stack's file; back to its default it is removed."""
    (stacks / "Pulumi.mine.yaml").write_text("config:\n  workers: '0'\n", encoding="utf-8")
    (stacks / "Pulumi.local.yaml").write_text("config: {}\n", encoding="utf-8")

    assert ["./rwi set workers= --stack mine"] == fixes("mine")
    assert ["./rwi up --set workers=2 --set epochs=5"] == fixes("local", workers="0", epochs="5")
    assert ["./rwi up --set workers=3"] == fixes("local", worker="3")


@pytest.mark.parametrize(
    ("config", "typed"),
    [
        ("{workers: , epochs: ~, trainImages: 256.0}", "up"),
        ("{aws:region: eu, pulumi:tags: {a: b}, rayToken: {secure: v1:x}}", "up"),
        ("{}", "up --set ray-worth-it:workers=3 --set aws:region=eu"),
        ("{scriptArguments: --epochs 2}", "up --set script=a.py"),
        ("{scriptArguments: --epochs 2}", "sweep script=a.py"),
        ("{workers: 0}", "sweep workers=2"),
    ],
)
def test_the_first_check_refuses_nothing_that_the_engine_takes(stacks: Path, config: str, typed: str) -> None:
    """Texts are those that Pulumi makes of YAML, other projects' keys are not read, and a sweep's are its points'."""
    (stacks / "Pulumi.local.yaml").write_text(f"config: {config}\n", encoding="utf-8")

    assert 0 == door.check(typed.split())


@pytest.mark.parametrize("config", ["{1: 2}", "{yes: 2}", "{? [a] : 2}", "{workers: [2]}", "{workers: {a: 2}}"])
def test_the_first_check_answers_odd_yaml_in_words(stacks: Path, config: str) -> None:
    """Names that YAML takes for something else, and values that are no texts."""
    (stacks / "Pulumi.local.yaml").write_text(f"config: {config}\n", encoding="utf-8")

    with pytest.raises(ToolError):
        door.check(["up"])


@pytest.mark.parametrize("typed", ["up --set", "sweep"])
def test_a_secret_in_a_call_is_in_no_message(stacks: Path, typed: str) -> None:
    """It may stand in a log of CI, where the call itself is masked."""
    (stacks / "Pulumi.local.yaml").write_text("config: {}\n", encoding="utf-8")

    with pytest.raises(ToolError, match="storageCredentials") as error:
        door.check([*typed.split(), "storageCredentials=AWS_SECRET_ACCESS_KEY=hunter2"])
    assert "hunter2" not in str(error.value)


def test_the_fixed_line_of_a_sweep_has_its_keys(stacks: Path) -> None:
    """It would sweep over nothing without them, and a point's value is no `--set`."""
    (stacks / "Pulumi.local.yaml").write_text("config: {}\n", encoding="utf-8")

    with pytest.raises(ToolError, match=re.escape("./rwi sweep epochs='1 2' --set workers=2\n")):
        door.check(["sweep", "epochs=1 2", "--set", "workers=abc"])


def test_set_changes_the_file_and_keeps_the_rest(stacks: Path) -> None:
    """Comments, other keys, no salt; nothing after = removes a setting."""
    file = mine(stacks, "# mine\nconfig:\n  # why\n  ray-worth-it:epochs: '3' # once\n  seed: '7'\n")

    edit.put("mine", change.checked("mine", {"workers": "3", "epochs": "5"}))
    assert {"workers": "3", "epochs": "5", "seed": "7"} == stack_config.config_of("mine")
    edit.put("mine", change.checked("mine", {"workers": "", "epochs": ""}))
    assert "# mine\nconfig:\n  # why\n  seed: '7'\n" == file.read_text(encoding="utf-8")  # not prose: a command
    edit.put("mine", change.checked("mine", {"seed": ""}))
    assert {} == stack_config.config_of("mine")


@pytest.mark.parametrize(
    ("printed", "pasted"),
    [
        ("\x1b[33m  pulumi config set workers 2\x1b[0m\n", "\x1b[33m  ./rwi set workers=2\x1b[0m\n"),
        ("    pulumi config set repeats 3    (10 to 16 min: x)", "    ./rwi set repeats=3    (10 to 16 min: x)"),
        ("a step; type: pulumi config set trainImages 64 \nnext", "a step; type: ./rwi set trainImages=64 \nnext"),
        ("Previewing update (local):\n", "Previewing update (local):\n"),
    ],
)
def test_lines_inside_of_what_pulumi_prints_are_ones_of_rwi(printed: str, pasted: str) -> None:
    """With its colours and blanks around them; all else stays."""
    assert pasted == lines.for_rwi(printed, "local", {})


@pytest.mark.parametrize("key", ["epochs", "ray-worth-it:epochs"])
@pytest.mark.parametrize("value", ["3", "'3'", '"3"', "'it''s # 3'", '"a \\" # b"', "a#b", "a b#c", "|\n    3"])
@pytest.mark.parametrize("comment", ["", "  # once: why"])
def test_set_keeps_the_comment_on_a_line_that_it_changes(stacks: Path, key: str, value: str, comment: str) -> None:
    """Of any form of value; what only looks like a comment goes with the value."""
    first, newline, rest = value.partition("\n")
    file = mine(stacks, f"config:\n  {key}: {first}{comment}{newline}{rest}\n  seed: '7'\n")

    edit.put("mine", {"epochs": "5"})

    lines_after = ["config:", f'  epochs: "5"{comment}', "  seed: '7'"]
    assert lines_after == file.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_set_keeps_the_ends_of_lines(stacks: Path, newline: str) -> None:
    """As an editor of another system wrote them: all of the file would differ in git."""
    file = stacks / "Pulumi.mine.yaml"
    file.write_bytes(newline.join(["# mine", "config:", "  epochs: '3' # once", "  seed: '7'", ""]).encode())

    edit.put("mine", {"epochs": "5", "workers": "3"})

    after = newline.join(["# mine", "config:", '  workers: "3"', '  epochs: "5" # once', "  seed: '7'", ""])
    assert after.encode() == file.read_bytes()


@pytest.mark.parametrize("indent", ["  ", " ", "    "])
@pytest.mark.parametrize("value", ["\n{0}{0}secure: v1:x", " |\n{0}{0}A=1\n\n{0}{0}workers: 9", " A=1\n{0}  B=2"])
def test_set_changes_a_value_of_several_lines(stacks: Path, indent: str, value: str) -> None:
    """Of a secret, a block of text, and a line that goes on; with the file's own indentation."""
    mine(stacks, f"config:\n{indent}rayToken:{value.format(indent)}\n{indent}workers: '2'\n")

    edit.put("mine", {"workers": "3", "epochs": "5"})
    assert {"3", "5"} <= set(map(str, stack_config.config_of("mine").values()))
    edit.put("mine", {"rayToken": None, "epochs": None})
    assert {"workers": "3"} == stack_config.config_of("mine")


def test_set_refuses_a_form_that_it_can_t_change(stacks: Path) -> None:
    """And leaves the file as it was; a text that is no YAML is no reason to break off, either."""
    for text in ("config: {workers: '2'}\n", "config:\n  environment:\n  - A\n  workers: '2'\n"):
        file = mine(stacks, text)
        with pytest.raises(ToolError) as refused:
            edit.put("mine", {"workers": "3", "environment": None, "script": "\udce4"})
        assert "workers" in str(refused.value)
        assert text == file.read_text(encoding="utf-8")


def test_set_on_a_full_disk_leaves_the_file_as_it_was(stacks: Path) -> None:
    """With its comments and other settings, and nothing beside it; a limit on a file's size fails as a full disk."""
    before = "# mine\nconfig:\n  workers: '2'\n"
    file = mine(stacks, before)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limit[1]))
    try:
        with pytest.raises(ToolError):
            edit.put("mine", {"workers": "3"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)

    assert (before, [file]) == (file.read_text(encoding="utf-8"), list(stacks.iterdir()))


def test_set_keeps_a_link_and_the_rights_of_its_file(stacks: Path, tmp_path: Path) -> None:
    """The file is replaced, and stays what and where it was."""
    there = tmp_path / "elsewhere.yaml"
    there.write_text("config:\n  workers: '2'\n", encoding="utf-8")
    there.chmod(0o640)
    (stacks / "Pulumi.mine.yaml").symlink_to(there)
    edit.put("mine", {"workers": "3"})

    assert 'workers: "3"' in there.read_text(encoding="utf-8")
    assert (0o640, True) == (there.stat().st_mode & 0o777, (stacks / "Pulumi.mine.yaml").is_symlink())


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"wrkers": "3"}, "did you mean workers"), ({"workers": "0"}, "from 1 to 256"),
        ({"rayToken": "x"}, "pulumi config set --secret rayToken"), ({"wrkers": ""}, "did you mean workers"),
    ],
)  # fmt: skip
def test_set_refuses_what_no_stack_can_have(stacks: Path, given: dict[str, str], part: str) -> None:
    """Before anything is written; a wrong key that stands there can be removed."""
    mine(stacks, "config:\n  wrong: '1'\n")

    with pytest.raises(ToolError) as refused:
        change.checked("mine", given)
    assert part in str(refused.value)
    assert {"wrong": None} == change.checked("mine", {"wrong": ""})


def test_a_fixing_line_reaches_set_as_it_was_meant() -> None:
    """Through the shell, with blanks, quotes and dollars."""
    value = '--a {workers} "b c" $HOME'
    line = lines.for_rwi(f"pulumi config set scriptArguments -- '{value}'", "local", {})

    assert value == door.parse(shlex.split(line)[1:]).params["assignments"]["scriptArguments"]

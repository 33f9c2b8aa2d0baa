"""Make's usage: `make help`, and the refusal of unknown targets and variables with what was probably meant.

All of it is read from the Makefile, where each target has its text and its variables. Runs with the system's Python.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.setup.project import ROOT, ToolError, is_on, run_main

OF_EVERY_TARGET = ("PYTHON", "TOOLS_PYTHON", "BOOTSTRAP", "IN_VENV", "USAGE", "SHELL", "MAKEFLAGS")
"""The Makefile's own, and make's."""
KEY_OF = {"ARGS": "scriptArguments", "KIND": "scriptKind", "ENV": "environment", "BATCH": "globalBatchSize"}
"""By a variable of `try` and `sweep`: the setting that means the same, where the name does not say it."""
WIDTH = 80
FIRST = (
    ("make doctor", "what is missing here"),
    ("make up", "measure the example"),
    ("make try SCRIPT=../my/train.py PYTHON=../my/.venv", "20 steps of your script"),
    ("make report", "open the newest report"),
    ("make destroy", "delete what `up` made"),
)
GENERAL = (
    ('make up SET="workers=2 epochs=8"', "settings for one call"),
    ("STACK=mine make up", "stacks/Pulumi.mine.yaml"),
)
REMOVED = {
    "plan": "preview",
    "smoke": "up STACK=smoke",
    "tensorboard": "report TENSORBOARD=1",
    "logs": "jobs JOB=…",
    "stop": "jobs STOP=1 JOB=…",
    "test-cluster": "test CLUSTER=1",
}
"""Targets of before, each with what to type instead."""
_SAID_ABOVE = ("STACK", "SET")
MORE = "More: README.md, docs/settings.md; a script of yours: docs/own-script.md"
_GROUP = re.compile(r"^##@ (?P<name>.+)$")
_TARGET = re.compile(r"^(?P<name>[a-z][a-z-]*):.*?## (?P<text>.*?)(?: \[(?P<variables>[^\]]*)\])?$")
_PLAIN = re.compile(r"[\w@%+=:,./{} -]*")


@dataclass(frozen=True)
class Target:
    """A target of the Makefile."""

    name: str
    group: str
    text: str
    variables: Mapping[str, str]
    """An example value by name; a name may be a pattern, as `TRY_*`."""

    def takes(self, name: str) -> bool:
        """Return whether the target uses a variable of make's command line."""
        return name in OF_EVERY_TARGET or any(fnmatch.fnmatchcase(name, known) for known in self.variables)


def targets(makefile: str) -> dict[str, Target]:
    """All targets by name, in the Makefile's order."""
    known: dict[str, Target] = {}
    group = ""
    for line in makefile.splitlines():
        if heading := _GROUP.match(line):
            group = heading["name"]
        elif match := _TARGET.match(line):
            words = shlex.split(match["variables"] or "")
            variables = {word.partition("=")[0]: word.partition("=")[2] for word in words}
            known[match["name"]] = Target(match["name"], group, match["text"], variables)
    return known


def settings(project: str) -> list[str]:
    """The keys that a Pulumi.yaml declares, read without a YAML parser."""
    block = re.search(r"^config:\n(.*?)(?=^\S|\Z)", project, re.MULTILINE | re.DOTALL)
    return re.findall(r"^  ([A-Za-z]\w*):\s", block[1] if block else "", re.MULTILINE)


def help_text(known: Mapping[str, Target], *, colour: bool) -> str:
    """Return every target in its group, in 80 columns; the most used commands come first."""
    bold, dim, plain = ("\x1b[1m", "\x1b[2m", "\x1b[0m") if colour else ("", "", "")
    examples = [*FIRST, *GENERAL]
    width = max(len(command) for command, _ in examples)
    lines = [f"  {command:<{width}}  {dim}{text}{plain}" for command, text in examples]
    shown = [f"{bold}Start here{plain}", *lines[: len(FIRST)], "", *lines[len(FIRST) :]]
    group = ""
    for target in known.values():
        if target.group != group:
            group = target.group
            shown += ["", f"{bold}{group}{plain}"]
        shown += _help_lines(target, dim, plain)
    return "\n".join([*shown, "", MORE])


def _help_lines(target: Target, dim: str, plain: str) -> list[str]:
    line = f"  {target.name:<13} {target.text}"
    own = [name for name in target.variables if name not in _SAID_ABOVE and "*" not in name]
    words = [f"{name}={quoted(target.variables[name])}" for name in own]
    rest = "  ".join(words)
    if len(line) + 2 + len(rest) <= WIDTH:
        return [f"{line}  {dim}{rest}{plain}" if rest else line]
    lines = [f"{'':<14}"]
    for word in words:
        if len(lines[-1]) + 2 + len(word) > WIDTH:
            lines.append(f"{'':<14}")
        lines[-1] += f"  {word}"
    return [line, *(f"{dim}{text}{plain}" for text in lines)]


def check(goals: Sequence[str], typed: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise ToolError for a goal that there is none of, and for variables that no goal takes."""
    known = targets((ROOT / "Makefile").read_text(encoding="utf-8"))
    unknown = [goal for goal in goals if goal not in known]
    removed = [goal for goal in unknown if goal in REMOVED]
    if removed:
        raise ToolError(f"`make {removed[0]}` is now:  {_instead(removed[0], typed, environment)}")
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, n=1)
        meant = f"did you mean `make {close[0]}`?" if close else "`make help` lists them"
        raise ToolError(f"make has no target {unknown[0]}; {meant}")
    wanted = [known[goal] for goal in goals or ["help"]]
    others = {name: value for name, value in typed.items() if not any(target.takes(name) for target in wanted)}
    if others:
        raise ToolError(_refusal(wanted, typed, others, environment))
    for name in typed:
        if any(target.variables.get(name) == "1" for target in wanted):
            is_on(name, typed)


def _refusal(
    wanted: Sequence[Target], typed: Mapping[str, str], others: Mapping[str, str], environment: Mapping[str, str]
) -> str:
    """Return what to type instead, as a whole command if all of it is known."""
    command = f"make {' '.join(target.name for target in wanted)}"
    lines = [f"{command} takes no variable {' and no '.join(others)}"]
    meant = {name: _meant(name, wanted) for name in others}
    unknown = {name: value for name, value in others.items() if not meant[name]}
    if unknown:
        takes = sorted({name for target in wanted for name in target.variables})
        lines += [f"  {name}: {_elsewhere(name, value)}" for name, value in unknown.items()]
        lines.append(f"  {command} takes {', '.join(takes) or 'none'}")
    if any(meant.values()):
        lines.append(f"  did you mean: {_corrected(command, typed, meant, environment)}")
    return "\n".join(lines)


def _instead(goal: str, typed: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the command that does what a removed target did, with the variables that were given."""
    target, *own = REMOVED[goal].split()
    variables = dict(word.split("=", 1) for word in own)
    texts = {**variables, **{name: quoted(value) for name, value in typed.items() if variables.get(name, "…") == "…"}}
    stack = environment.get("STACK", "") if not {"STACK"} & texts.keys() else ""
    before = f"STACK={quoted(stack)} " if stack else ""
    return " ".join([f"{before}make {target}", *(f"{name}={text}" for name, text in texts.items())])


def _meant(name: str, wanted: Sequence[Target]) -> str:
    """A variable that a goal takes, or a setting as `SET key`; "" where neither is near."""
    variables = {known: known for target in wanted for known in target.variables if "*" not in known}
    keys = settings((ROOT / "Pulumi.yaml").read_text(encoding="utf-8")) if "SET" in variables else []
    candidates = {re.sub(r"(?=[A-Z])", "_", key).upper(): f"SET {key}" for key in keys}
    candidates |= {key.upper(): f"SET {key}" for key in keys} | variables
    candidates |= {alias: f"SET {key}" for alias, key in KEY_OF.items() if key in keys and alias not in variables}
    close = difflib.get_close_matches(name.upper(), candidates, n=1, cutoff=0.7)
    return candidates[close[0]] if close else ""


def _corrected(command: str, typed: Mapping[str, str], meant: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The command with every variable where it belongs; what was given by the environment stays before it."""
    before = f"STACK={quoted(environment['STACK'])} " if environment.get("STACK") and "STACK" not in typed else ""
    chosen = {name: value for name, value in typed.items() if name not in meant}
    values = [typed["SET"] if "SET" in typed else environment.get("SET", "")]
    for name, candidate in meant.items():
        variable, _, key = candidate.partition(" ")
        if not variable:
            continue
        if variable == "SET":
            values.append(f"{key}={shlex.quote(typed[name])}" if key else typed[name])
        else:
            chosen[variable] = typed[name]
    if any(values):
        chosen["SET"] = " ".join(filter(None, values))
    return " ".join([f"{before}{command}", *(f"{name}={quoted(value)}" for name, value in chosen.items())])


def quoted(value: str) -> str:
    """Quote a value as one would type it."""
    if not _PLAIN.fullmatch(value.replace("'", "")):
        return shlex.quote(value)
    return value if value and shlex.quote(value) == value and "=" not in value else f'"{value}"'


def _elsewhere(name: str, value: str) -> str:
    known = targets((ROOT / "Makefile").read_text(encoding="utf-8"))
    others = [f"`make {target.name}`" for target in known.values() if name in target.variables]
    if others:
        return f"only {', '.join(others)} takes it" if len(others) == 1 else f"only {', '.join(others)} take it"
    return f"a variable of the environment stands before make: {name}={quoted(value)} make …"


def typed(flags: str) -> dict[str, str]:
    """The variables of make's command line, by the MAKEFLAGS that a recipe gets.

    GNU make puts a backslash before blanks and backslashes, doubles `$`, and leaves quotes to whoever reads them.
    What it was given has `$$` for a `$`, too.
    """
    words = re.findall(r"(?:\\.|[^\s\\])+", flags, re.DOTALL)
    texts = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL).replace("$$", "$").replace("$$", "$") for word in words]
    matches = [match for text in texts if (match := re.fullmatch(r"([A-Za-z]\w*)=(.*)", text, re.DOTALL))]
    return {match[1]: match[2] for match in matches}


def main() -> int:
    """`help`, or `check GOAL … NAME=VALUE …`."""
    parser = argparse.ArgumentParser(prog="python3 -m cli.setup.usage", description=__doc__)
    parser.add_argument("verb", choices=("help", "check"))
    parser.add_argument("words", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.verb == "help":
        known = targets((ROOT / "Makefile").read_text(encoding="utf-8"))
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        sys.stdout.write(f"{help_text(known, colour=colour)}\n")  # at once: `make help | head` closes early
        return 0
    typed = dict(word.split("=", 1) for word in sorted(arguments.words) if "=" in word)
    check([word for word in arguments.words if "=" not in word], typed, os.environ)
    return 0


if __name__ == "__main__":
    run_main(main)

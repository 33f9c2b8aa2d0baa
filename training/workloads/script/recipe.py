"""The recipe of a user's own script: its settings besides those of every workload. Standard library only."""

import re
import shlex
from dataclasses import dataclass
from typing import Any, ClassVar

from training.contract.recipe import WORKLOADS, Recipe, setting
from training.contract.rules import Rule, choice, number, text, whole
from training.workloads.script.recognise import KINDS

AUTO = "auto"
_UNIT = re.compile(r"[A-Za-z][A-Za-z -]{0,30}")
ENVIRONMENT_WORDS = "NAME=value, several with blanks between, quoted as in a shell; PYTHONPATH is not allowed"
"""Description of the allowed variables for a script."""
PATTERN_WORDS = "patterns of paths in {storage}, as `*.pt` or `**/*.pt`, with blanks between, quoted as in a shell"
"""Description of the allowed artifacts."""


def variables(text: str) -> dict[str, str]:
    """Return the variables in a text such as `DATA=/data HF_HOME=/models`. Raise ValueError with the wrong word."""
    return dict(variable(word) for word in shlex.split(text))


def variable(word: str) -> tuple[str, str]:
    """Return the name and the value of a variable such as `DATA=/data`. Raise ValueError naming the word."""
    name, equals, value = word.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"has {word!r}: allowed is {ENVIRONMENT_WORDS}")
    if name == "PYTHONPATH":
        raise ValueError("has PYTHONPATH: install what it points at into the script's environment instead")
    return name, value


def _readable_by(read: Any, allowed: str) -> Rule:
    """Return a rule for a setting that accepts a text if `read` can parse it."""

    def parse(text: str) -> str:
        read(text)
        return text.strip()

    return Rule(parse, allowed)


def patterns(text: str) -> list[str]:
    """Return the patterns in `*.pt 'run 1/*.json'`. Raise ValueError for one that is invalid or leaves the folder."""
    words = shlex.split(text)
    if not all(map(_is_pattern, words)):
        raise ValueError(text)
    return words


def _is_pattern(word: str) -> bool:
    """Return whether a pattern names something, does not leave its folder, and is one that Python 3.11 accepts."""
    parts = word.split("/")
    names_some = any(part not in ("", ".") for part in parts)
    return names_some and parts[0] != "" and all(part == "**" or (part != ".." and "**" not in part) for part in parts)


def _word(text: str) -> None:
    if not _UNIT.fullmatch(text.strip()):
        raise ValueError(text)


def environment_rule() -> Rule:
    """Return the rule for the setting that names environment variables of a script, as one text."""
    return _readable_by(variables, ENVIRONMENT_WORDS)


@dataclass(frozen=True, kw_only=True)
class ScriptRecipe(Recipe):
    """The settings that change a run of a script. Paths and the interpreter count by their content: see `inputs`."""

    without: ClassVar[tuple[str, ...]] = ()
    one_process: ClassVar[bool] = False
    """True if each measured process trains alone, so that the script need not take a number of workers."""

    workload: str = setting("script", choice(WORKLOADS), "what is trained")
    script: str = setting(
        "",
        text("a Python file"),
        "your script: it trains, then ends",
        decides=False,
        derived="none",
        example="../mine/train.py",
    )
    script_arguments: str = setting(
        "",
        _readable_by(shlex.split, "arguments, quoted as in a shell"),
        "its arguments; {workers}, {seed}, {epochs} and {storage} (a folder that is deleted afterwards) are replaced, "
        "and in a search the names of searchSpace",
        derived="none",
        example="--epochs 1 --num-workers {workers}",
    )
    artifacts: str = setting(
        "",
        _readable_by(patterns, PATTERN_WORDS),
        "files in {storage} that are copied to the key storage when a run has ended",
        derived="none",
        example="train/checkpoint_*/*.pt",
    )
    script_kind: str = setting(AUTO, choice([AUTO], KINDS), "kind of script; auto: recognised from its text")
    script_folder: str = setting(
        "",
        text("a folder"),
        "folder with the script's other files",
        decides=False,
        derived="the script, and modules beside it that it imports",
        example="../mine",
    )
    python: str = setting(
        "",
        text("an interpreter, 3.9 or newer"),
        "interpreter of the script's own environment",
        decides=False,
        derived="the project's own",
        example="../mine/.venv/bin/python",
        targets=("local",),
    )
    environment: str = setting(
        "",
        environment_rule(),
        "environment variables of the script",
        derived="none",
        example="DATA=/data HF_HOME=/models",
    )
    unit: str = setting(
        "rows",
        _readable_by(_word, "a word, in the plural"),
        "what a row of the script's data is called in tables",
        decides=False,
    )
    metric: str = setting(
        "",
        text("a name"),
        "number that the script reports, by which its training is judged",
        decides=False,
        derived="none",
        example="val_accuracy",
    )
    metric_mode: str = setting(
        "max", choice(["max", "min"]), "whether more of the metric is better, or less", decides=False
    )
    metric_target: float | None = setting(
        None,
        number(-1e18, 1e18),
        "value of the metric; the times to reach it are compared",
        decides=False,
        derived="none",
        example="0.9",
    )
    metric_tolerance: float | None = setting(
        None,
        number(0, 1e18),
        "how far arms may differ in the metric at the end",
        decides=False,
        derived="none",
        example="0.01",
    )
    measure_steps: int = setting(
        0, whole(0, 10_000_000), "end each rank after so many optimizer steps; 0: when the script ends"
    )
    data_arguments: str = setting(
        "",
        _readable_by(shlex.split, "arguments, quoted as in a shell"),
        "arguments with which the script reads through Ray Data, in an arm raydata",
        derived="none",
        example="--input ray-data --num-workers {workers}",
        targets=("local",),
        sparse=True,
    )
    data_cpus: int = setting(
        1,
        whole(1, 64),
        "with dataArguments, CPUs of each worker beside workerCpus",
        targets=("local",),
        sparse=True,
    )

    @property
    def input_cpus(self) -> int:  # type: ignore[override]
        """Return each worker's CPUs besides `worker_cpus`, which are the same with and without Ray Data."""
        return self.data_cpus if self.data_arguments else 0

    worker_gpus: int = setting(
        0,
        whole(0, 1),
        "GPUs of each worker, and of the baseline, for a script with PyTorch",
        targets=("local", "minikube", "kubernetes"),
        sparse=True,
    )

    def placeholders(self) -> tuple[str, ...]:
        """Return the placeholders of the script's arguments that are replaced in addition to PLACEHOLDERS."""
        return ()

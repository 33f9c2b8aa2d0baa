"""`rwi report adopt`: writes `stacks/Pulumi.<stack>-best.yaml` from a result of a search: the same script with the
arguments of the best trial, as workload script. It is for review: nothing is measured, and no file is written over."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from cli.setup import project
from cli.setup.project import ROOT, ToolError, checked_stack_name, shown_file
from cli.stack import config as stack_config
from cli.stack import edit
from cli.stack.lines import for_rwi
from compare.schema import Comparison, Search
from infra.settings.table import keys_of
from report import terminal
from report.errors import HistoryError
from report.stored import Stored, choose, stored_results
from training.machine.command_line import rwi
from training.workloads.script import plain, resolve
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import ScriptError
from training.workloads.search.recipe import CHECKPOINT
from training.workloads.search.space import Value, replaced, words

SCRIPT, SUFFIX = "script", "-best"
_PLAIN = re.compile(r"[\w.+-]+")
"""Matches a value that a shell needs no quotes for."""


def adopt(stack: str, result: str) -> int:
    """Write the file of a stack with a search's best trial, and print what to do next. Return the exit status."""
    stored = result_of(ROOT, stack, result)
    search = search_of(stored, stack)
    values, best, text = adopted(stored.comparison, search, stack), f"{stack}{SUFFIX}", described(stored, search, stack)
    path = write(best, values, f"# {text}\n")
    terminal.write(f"{text}\n{shown_file(path)}: review it, then")
    terminal.write(f"  {rwi('preview', best)}")
    for key in secrets_of(stack):
        line = f"{key} is secret, and stays in stack {stack}; for this one:\n  pulumi config set --secret {key}"
        terminal.write(for_rwi(line, best, {}))
    if text := without_ray(values):
        terminal.write(text)
    return 0


def result_of(folder: Path, stack: str, wanted: str) -> Stored:
    """Return a stored result of the stack. Raise ToolError if the stack has no results, or not the wanted one."""
    stored, problems = stored_results(folder, stack)
    if not stored:
        unread = "".join(f"\n{problem}" for problem in problems)
        raise ToolError(
            f"stack {stack} has no result yet: it is there after\n  {rwi('up', stack)}\n"
            f"and for one that `pulumi up` measured after\n  {rwi('report open', stack)}{unread}"
        )
    try:
        return choose(stored, wanted, stack)
    except HistoryError as error:
        raise ToolError(f"--result {error}") from None


def search_of(stored: Stored, stack: str) -> Search:
    """Return what a search found, from its stored result. Raise ToolError if the result is of another workload."""
    if stored.comparison.search is None:
        raise ToolError(
            f"{stored.name} of stack {stack} is no search, but workload {stored.comparison.workload}: it has no "
            f"trials. Name the stack of a search:\n  {rwi('report adopt', 'search')}"
        )
    return stored.comparison.search


def adopted(comparison: Comparison, search: Search, stack: str) -> dict[str, str]:
    """Return the new stack's settings: those that were measured, with the best trial's values in the arguments. Raise
    ToolError for a search without a best trial."""
    if search.best_config is None:
        why = comparison.reasons.get("bestConfig", "no trial ended with its metric")
        raise ToolError(f"stack {stack} has no best trial: {why}\n  {rwi('report open', stack)}")
    known = keys_of(SCRIPT)
    kept = {key: text for key, text in comparison.settings.items() if key in known}
    if (workers := int(comparison.recipe.get("trialWorkers", 1))) > 1:
        kept["workers"] = str(workers)
    typed = str(comparison.recipe["scriptArguments"]).replace(f"{{{CHECKPOINT}}}", "{storage}")
    arguments = with_values(typed, json.loads(search.best_config))
    return {"target": "local"} | kept | {"workload": SCRIPT, "scriptArguments": arguments}


def with_values(arguments: str, configuration: Mapping[str, Value]) -> str:
    """Return the script's arguments with a configuration's values put in; all are quoted anew if one needs quotes."""
    if all(map(_PLAIN.fullmatch, words(configuration).values())):
        return replaced([arguments], configuration)[0]
    return shlex.join(replaced(shlex.split(arguments), configuration))


def described(stored: Stored, search: Search, stack: str) -> str:
    """Return one line that says from which search, result and trial the file is."""
    metric = stored.comparison.recipe["metric"]
    reached = f": {metric} {search.best_metric:g}" if search.best_metric is not None else ""
    text = f"The best trial of stack {stack}, result {stored.name}{reached}."
    if stored.comparison.recipe.get("searchScheduler") == "pbt":
        text += " Population based training may have changed its values while it trained: these are the last ones."
    return " ".join(text.split())


def write(stack: str, values: Mapping[str, str], heading: str) -> Path:
    """Write a new stack file, and return its path. Raise ToolError if the file exists, or cannot be written."""
    path = project.STACKS / f"Pulumi.{checked_stack_name(stack)}.yaml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f"{heading}config: {{}}\n")
    except FileExistsError:
        name = shown_file(path)
        raise ToolError(
            f"{name} is there already, and nothing is written over: measure it, or keep it under another name first\n"
            f"  mv {name} {shown_file(path.with_name(f'Pulumi.{stack}-1.yaml'))}"
        ) from None
    except OSError as error:
        raise ToolError(f"{shown_file(path)} can't be written ({error.strerror})") from None
    return edit.put(stack, values)


def secrets_of(stack: str) -> list[str]:
    """Return the keys that the search's stack file has as secrets, encrypted for it alone; empty without a file."""
    try:
        config = stack_config.config_of(stack)
    except ToolError:
        return []
    return sorted(
        key.rpartition(":")[2] for key, value in config.items() if isinstance(value, dict) and "secure" in value
    )


def without_ray(values: Mapping[str, str]) -> str:
    """Return why the script cannot be measured with Ray, for example because it trains in one process; "" if it can."""
    own = {key: values[key] for key in ("script", "scriptArguments", "scriptKind") if key in values}
    try:
        script = resolve.script_of(ScriptRecipe.from_dict(own))
    except ScriptError as error:
        return f"not yet measurable with and without Ray: {error}"
    if script.kind == "plain" and plain.mechanism(script) is None:
        return f"nothing in {script.path.name} is distributed: it is measured in one process, beside a start of Ray"
    return ""

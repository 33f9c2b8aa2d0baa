"""`make try`: recognise a script, show the commands of all arms, run some 20 steps of each, and say what was seen.

What the arms write beside their own files is in a private folder that is gone at the end; what they took is kept for
`make plan`.
"""

import sys
import tempfile
from pathlib import Path

from report import terminal
from tools.setup.project import ToolError, run_main
from tools.stack.lines import for_make
from tools.tryout import explain, keep, request, show, write
from tools.tryout.run_arm import Outcome, run
from training.machine import isolation, machine_lock
from training.machine.ports import held_ports
from training.workloads.script import commands, facts, python_environment
from training.workloads.script.recognise import Script, ScriptError, recognise


def main() -> int:
    """Try the script of SCRIPT; 1 when no two arms of it can be compared."""
    asked = request.read()
    try:
        script = recognise(asked.script, asked.arguments, asked.kind)
        found = python_environment.checked(asked.python, script)
    except ScriptError as error:
        raise ToolError(str(error)) from None
    except python_environment.PythonError as error:
        raise ToolError(explain.python_problem(error, asked.command)) from None
    terminal.write(show.recognised(script, found, str(commands.folder(script))))
    with tempfile.TemporaryDirectory(prefix="try-") as folder:
        arms = _arms(script, asked, Path(folder), "ray" in found)
        terminal.write(f"\narms\n{show.command_lines(arms)}")
        if explain.lacks_ray(script, arms):
            terminal.write(f"to have it: {python_environment.line_that_gives(script, ['ray'], asked.python)}")
        machine_lock.hold(lambda text: terminal.write(text, sys.stderr))
        if reason := isolation.refusal():
            terminal.write(f"\nwithout a network of its own: {reason}")
        outcomes = _run_all(arms, script, asked, Path(folder))
    return _say(script, arms, outcomes, asked)


def _arms(script: Script, asked: request.Request, folder: Path, has_ray: bool) -> list[commands.ArmCommand]:
    with held_ports(1) as (port,):
        sizes = commands.Sizes(workers=asked.workers, master_port=port)
    values = {"seed": "1", "epochs": "1", "storage": str(folder / "storage")}
    (folder / "storage").mkdir()
    return commands.commands(script, asked.python, sizes, values, has_ray)


def _run_all(
    arms: list[commands.ArmCommand], script: Script, asked: request.Request, folder: Path
) -> dict[str, Outcome]:
    """Every arm that there is, one after another; what hangs, floods or refuses its arguments would do it again."""
    outcomes: dict[str, Outcome] = {}
    terminal.write(f"\nsome {asked.steps} steps of each")
    for arm in arms:
        if arm.absent:
            continue
        outcome = outcomes[arm.arm] = run(arm, asked, folder, commands.folder(script))
        problem = explain.problem(outcome, script, asked.limit_seconds)
        terminal.write(f"  {arm.arm}: {problem}" if problem else f"  {arm.arm}: {outcome.seconds:.0f} s")
        if outcome.hung or outcome.flooded or explain.died_of_arguments(outcome):
            break
    return outcomes


def _say(script: Script, arms: list[commands.ArmCommand], outcomes: dict[str, Outcome], asked: request.Request) -> int:
    trained = {
        name: outcome for name, outcome in outcomes.items() if not explain.problem(outcome, script, asked.limit_seconds)
    }
    ranks = {arm.arm: arm.ranks for arm in arms}
    seen = {name: facts.of_arm(name, ranks[name], outcome.seen) for name, outcome in trained.items()}
    wanted = [arm.arm for arm in arms if not arm.absent]
    complete = set(trained) == set(wanted) and "ray" in wanted
    found = show.verdict(seen, complete)
    if seen:
        terminal.write(f"\nseen\n{show.table(seen, trained)}")
        terminal.write("\n".join(f"  {finding}" for finding in show.findings(seen, found)))
        terminal.write(f"  {show.metrics(trained)}; {show.observer_cost(trained)}")
    if "ray" not in wanted:
        terminal.write("\nno claim: without the arm `ray` there is nothing to compare it with")
        return _refused(asked)
    if failed := [name for name in wanted if name not in outcomes or outcomes[name].code]:
        terminal.write(show.no_claim(failed, outcomes))
        return _refused(asked)
    terminal.write(f"\n{show.claim(found)}")
    if complete:
        keep.keep(asked, seen, trained)
    if not complete or found.claim is None:
        return _refused(asked)
    terminal.write(show.estimate(seen, trained, asked.steps, show.epochs_of(asked.arguments)))
    terminal.write(_written(asked) if asked.write_to else show.next_step(asked.command, asked.own_stack))
    return 0


def _refused(asked: request.Request) -> int:
    """The last line, and the exit code, where the arms can't be compared."""
    if asked.write_to:
        terminal.write("nothing is written: the arms can't be compared")
    return 1


def _written(asked: request.Request) -> str:
    back = write.way_back(asked.write_to)
    path = write.write(asked.write_to, asked.keys)
    written = f"\nwritten into stacks/{path.name}: {', '.join(asked.keys)}\nnext: STACK={asked.write_to} make up"
    written += f"\nto go back: {back or f'remove these keys from stacks/{path.name}'}"
    if not asked.secrets:
        return written
    line = for_make(f"pulumi config set --secret secretEnvironment --stack {asked.write_to}", asked.write_to, {})
    return (
        f"{written}\nnot written, because git tracks that file: {', '.join(asked.secrets)}. This asks for it,"
        f" encrypted, as NAME=value:\n  {line}"
    )


if __name__ == "__main__":
    run_main(main)

"""`rwi try`: recognise a script, show the commands of all arms, run some 20 steps of each, and say what was seen.

What the arms write beside their own files is in a private folder that is gone at the end; what they took is kept for
`rwi preview`.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, TextIO

from cli.setup.project import shown_file
from cli.stack.lines import for_rwi
from cli.tryout import bound, explain, keep, prove, show, write
from cli.tryout.known_script import known_script, with_ray
from cli.tryout.others import Others
from cli.tryout.request import Request
from cli.tryout.run_arm import Outcome, run
from report import terminal
from report.table import unbroken, wrap
from training.machine import isolation, machine_lock
from training.machine.command_line import rwi
from training.workloads.script import commands, facts, plain, ray_layer, same_work
from training.workloads.script.commands import ArmCommand
from training.workloads.script.facts import ArmFacts
from training.workloads.script.plain import Proof
from training.workloads.script.recognise import Script


def tryout(request: Request) -> int:
    """Try a script in every arm, and print what was seen. Return 0 if it can be measured as it is, else 1."""
    script, versions = known_script(request)
    _write_prose(show.recognised(script, versions, str(commands.folder(script))))
    ray = with_ray(request, script, versions, _write_prose)
    with tempfile.TemporaryDirectory(prefix="try-") as folder:
        arms, proves = prove.arms(script, request, Path(folder), ray)
        terminal.write("\narms")
        for arm, line in zip(arms, show.command_lines(arms), strict=True):
            (_write_prose if arm.absent else terminal.write)(line)
        if explain.lacks_ray(script, arms):
            terminal.write(f"to have it: {ray_layer.line_that_installs(script, request.python)}")
        machine_lock.hold(lambda text: _write_prose(text, sys.stderr))
        if reason := isolation.refusal():
            _write_prose(f"\nwithout a network of its own: {reason}")
        with Others() as others:
            ran = _run_all(arms, script, request, Path(folder), proves)
            porting = ""
            if ran.proof and ran.proof.works and proves:
                porting = prove.before_porting(ran.proof, script, proves, request, Path(folder))
    busy = others.in_words()
    if busy and (effect := show.effect_of_others(ran.outcomes)):
        _write_prose(f"\nthe machine was not quiet, and {effect}: {busy}")
    if porting:
        _write_prose(f"\n{porting}")
    return _say(script, ran._replace(is_quiet=not busy), request)


class Ran(NamedTuple):
    """The outcomes of the arms, and of the proof."""

    outcomes: dict[str, Outcome]
    arms: list[ArmCommand]
    """All arms; those that the proof excluded are marked as absent, too."""
    proof: Proof | None = None
    """The outcome of the proof for the ranks of a plain script; None if there was no proof."""
    is_quiet: bool = True
    """False if other programs kept the machine busy meanwhile."""


def _run_all(
    arms: list[ArmCommand], script: Script, request: Request, folder: Path, proves: ArmCommand | None = None
) -> Ran:
    """Run each arm. Stop after an arm that hangs or prints too much, or if the first arm fails through the script
    itself. After the first success, `proves` is run and decides which of the other arms follow."""
    outcomes: dict[str, Outcome] = {}
    proof: Proof | None = None
    terminal.write(f"\nabout {request.steps} steps of each arm, even if its arguments ask for more epochs")
    while left := [arm for arm in arms if not arm.absent and arm.arm not in outcomes]:
        arm = left[0]
        outcome = outcomes[arm.arm] = run(arm, request, folder, commands.folder(script))
        problem = explain.problem(outcome, script, request.limit_seconds)
        _write_prose(f"  {arm.arm}: {problem}" if problem else f"  {arm.arm}: {outcome.seconds:.0f} s")
        if outcome.hung or outcome.flooded or (len(outcomes) == 1 and explain.fails_in_every_arm(outcome)):
            if names := [other.arm for other in left[1:]]:
                _write_prose(f"  {', '.join(names)}: not tried: {arm.arm} failed")
            break
        if proves and not proof and (not problem or left[1].arm in plain.OF_RANKS):
            proof = prove.prove(script, proves, request, folder) if not problem else plain.UNTRIED
            _write_prose(f"  {proof.words}")
            arms = prove.after(proof, arms)
            if proof.environment:  # it is run again as the others are
                del outcomes[arm.arm]
                shutil.rmtree(folder / arm.arm)
    return Ran(outcomes, arms, proof)


def _say(script: Script, ran: Ran, request: Request) -> int:
    outcomes, arms, proof, is_quiet = ran
    trained = {
        name: outcome
        for name, outcome in outcomes.items()
        if not explain.problem(outcome, script, request.limit_seconds)
    }
    ranks = {arm.arm: arm.ranks for arm in arms}
    with_steps = {name: outcome for name, outcome in trained.items() if outcome.seen}
    seen = {
        name: plain.proved(facts.of_arm(name, ranks[name], outcome.seen), plain.but(proof, outcome.not_proved))
        for name, outcome in with_steps.items()
    }
    wanted = [arm.arm for arm in arms if not arm.absent]
    complete = set(trained) == set(wanted) and "ray" in wanted
    verdict = show.verdict(seen, complete)
    if seen:
        terminal.write(f"\nseen\n{show.table(seen, with_steps)}")
        _write_prose("\n".join(f"  {finding}" for finding in show.findings(seen, verdict)))
        _write_prose(f"  {show.metrics(with_steps)}{show.observer_cost(with_steps)}")
    if commands.not_distributed(script) and not (proof and proof.works):
        return _say_bound(wanted, outcomes, trained, seen, request)
    if "ray" not in wanted:
        terminal.write("\nno answer: without the arm `ray` there is nothing to compare it with")
        return _refused(request)
    if failed := {name: outcomes[name] for name in wanted if name in outcomes and outcomes[name].code}:
        _write_prose(show.no_answer(failed))
        return _refused(request)
    _write_prose(f"\n{show.claim(verdict)}")
    if same_work.share_rows({name: arm_facts.work for name, arm_facts in seen.items()}):
        _write_prose(explain.own_rows(script))
    if complete:
        keep.keep(request, seen, trained)
    if not complete or verdict.claim is None:
        return _refused(request)
    _write_prose(f"\n{show.no_answer_yet(trained, request.workers, verdict, is_quiet=is_quiet)}")
    _write_prose(show.estimate(seen, trained, request.steps, show.epochs_of(request.arguments)))
    return _can_be_measured(request)


def _say_bound(
    wanted: list[str],
    outcomes: dict[str, Outcome],
    trained: dict[str, Outcome],
    seen: dict[str, ArmFacts],
    request: Request,
) -> int:
    """Print a lower bound of Ray's time for a script that nothing distributes, for which no claim is possible. Return
    the exit status."""
    if commands.RAY_START not in wanted:
        terminal.write("\nno bound: its environment has no Ray whose start could be measured")
        return _refused(request)
    if failed := [name for name in wanted if name not in trained]:
        _write_prose(show.no_answer({name: outcomes[name] for name in failed if name in outcomes}))
        return _refused(request)
    bounded = bound.tried(trained, seen, request.workers, show.epochs_of(request.arguments))
    if bounded:
        _write_prose(f"\n{bound.in_words(bounded, request.workers)}")
    keep.keep(request, seen, trained)
    _write_prose(show.estimate(seen, trained, request.steps, show.epochs_of(request.arguments)))
    return _can_be_measured(request)


def _can_be_measured(request: Request) -> int:
    """Write the stack's file if it is asked for, print what to type next, and return the exit status 0."""
    terminal.write("")
    if request.write_to:
        _write_stack_file(request)
    else:
        terminal.write(show.next_step(request))
    return 0


def _refused(request: Request) -> int:
    """Print that no stack's file is written, if one was asked for, and return the exit status 1."""
    if request.write_to:
        terminal.write("nothing is written: the arms can't be compared")
    return 1


def _write_stack_file(request: Request) -> None:
    back = write.way_back(request.write_to)
    path = write.write(request.write_to, request.keys)
    file = shown_file(path)
    _write_prose(f"written into {file}: {', '.join(request.keys)}")
    terminal.write(f"to go back: {back or f'remove these keys from {file}'}")
    if request.secrets:
        line = for_rwi(f"pulumi config set --secret secretEnvironment --stack {request.write_to}", request.write_to, {})
        _write_prose(
            f"not written, because git tracks that file: {', '.join(request.secrets)}. This asks for it, encrypted, as"
            " NAME=value:"
        )
        terminal.write(f"  {line}")
    terminal.write(f"next: {rwi('up', request.write_to)}")


def _write_prose(text: str, out: TextIO | None = None) -> None:
    """Print lines of prose, on a terminal wrapped at blanks. What a script printed, and commands in backticks, stay as
    they are."""
    out = out or sys.stdout
    terminal.write("\n".join(map(_wrapped, text.split("\n"))) if out.isatty() else text, out)


def _wrapped(line: str) -> str:
    if line.startswith(explain.QUOTED):
        return line
    whole = re.sub("`[^`]*`", lambda command: unbroken(command[0]), line)
    indent = line[: len(line) - len(line.lstrip(" "))]
    return wrap(whole, indent=f"{indent}  ")

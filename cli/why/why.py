"""`rwi why`: run an arm in which one condition changes at a time, say what makes its steps long, and keep that as
results/<stack>/why.json, without the values of --env, which are often secret.

Nothing of these runs is a measurement: weights are thrown away, and the clocks of `./rwi up` know nothing of it.
"""

import hashlib
import json
import sys
import tempfile
import textwrap
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cli.setup.project import ROOT, ToolError
from cli.tryout import explain, prove, run_arm
from cli.tryout.known_script import known_script, with_ray
from cli.tryout.others import Others
from cli.tryout.run_arm import Outcome
from cli.why import blocks
from cli.why.follow import TIME_UP, Follower
from cli.why.request import EPOCHS, WhyRequest, without_secrets
from compare import why
from compare.value import Missing
from compare.why import ArmWhy, Distribution, Tried, Why
from report import terminal
from report import why as words
from training.contract.codec import encode, write_whole
from training.machine import cpu, isolation, machine_lock
from training.machine.command_line import rwi
from training.workloads.script import commands, plain
from training.workloads.script.observe import experiment
from training.workloads.script.recognise import Script

SCHEMA_VERSION = 1
NAME = "why.json"
WIDTH = 80
NOT_TRIED = "it ended before conditions were tried"
DIED_LATER = f"\n  Conditions were tried by then: `{rwi('try')}` shows whether it also dies without them."
MOST_SECONDS = 3600
"""Most seconds that --limit may allow."""
START_SECONDS = 120
"""Seconds that an arm gets beyond its time for trying, for its start, its first steps and its end."""


def try_conditions(request: WhyRequest) -> int:
    """Try conditions in each arm, print and write the results. Return 1 if nothing can be said of any arm."""
    script, versions = known_script(request.of_try)
    if "torch" not in versions:
        raise ToolError(
            f"conditions are tried in scripts of PyTorch alone: `{rwi('up')}` shows what others' steps are clocked at"
        )
    has_ray_arm = not set(request.arms).isdisjoint(commands.BY_RAY)
    ray = with_ray(request.of_try, script, versions, terminal.write) if has_ray_arm else commands.IN_ITS_ENVIRONMENT
    with tempfile.TemporaryDirectory(prefix="why-") as folder:
        every, proves = prove.arms(script, request.of_try, Path(folder), ray, EPOCHS)
        machine_lock.hold(lambda text: terminal.write(text, sys.stderr))
        if reason := isolation.refusal():
            terminal.write(f"without a network of its own: {reason}")
        if proves and set(request.arms) & set(plain.OF_RANKS):
            proof = prove.known(script, proves, request.of_try, Path(folder))
            terminal.write(proof.words)
            every = prove.after(proof, every)
        arms, absent = _wanted(every, request)
        with Others() as others:
            tried = _try_all(arms, script, request, Path(folder))
    busy = others.in_words()
    judged = {arm: why.judge(of_arm, len(arms)) for arm, of_arm in tried.items()}
    known = {arm: of_arm for arm, of_arm in judged.items() if isinstance(of_arm, ArmWhy)}
    gains = why.distributions(tried, known, len(arms))
    if busy:
        terminal.write(f"\n{words.warning(busy)}")
    for arm, of_arm in judged.items():
        terminal.write(f"\n{_in_words(arm, of_arm)}")
    if gains:
        terminal.write("\n" + "\n".join(_wrapped(text) for text in words.distributions(gains)))
    if not known:
        return 1
    content = kept(request, script, judged | without_rounds(request.arms, judged, absent), gains, busy)
    path = keep(content, request.of_try.own_stack)
    terminal.write(f"\nkept: {path}")
    terminal.write(f"page: {write_page(content, path)}")
    return 0


def without_rounds(arms: Iterable[str], judged: Container[str], absent: Mapping[str, str]) -> dict[str, Missing]:
    """Return, for each wanted arm without results, why nothing is known about it."""
    return {arm: Missing(absent.get(arm, NOT_TRIED)) for arm in arms if arm not in judged}


def write_page(content: Why, path: Path) -> Path:
    """Write the HTML page beside the JSON file, and return its path."""
    from report import why_page  # matplotlib takes a second to import, and memory beside what is tried

    page = path.with_suffix(".html")
    write_whole(ROOT / page, why_page.render(content))
    return page


def _wanted(
    arms: Iterable[commands.ArmCommand], request: WhyRequest
) -> tuple[list[commands.ArmCommand], dict[str, str]]:
    """Return the wanted arms, and why others are absent. Raise ToolError if no wanted arm is left."""
    every = {arm.arm: arm for arm in arms}
    wanted = [every[name] for name in request.arms]
    for arm in wanted:
        if arm.absent:
            terminal.write(f"{arm.arm}: absent, {arm.absent}")
    present = [arm for arm in wanted if not arm.absent]
    if not present:
        raise ToolError(
            f"no arm is left to try: --arm {' or --arm '.join(name for name in every if not every[name].absent)}"
        )
    return present, {arm.arm: arm.absent for arm in wanted if arm.absent}


def _try_all(arms: list[commands.ArmCommand], script: Script, request: WhyRequest, folder: Path) -> dict[str, Tried]:
    """Try conditions in one arm after another, and return the results by arm. Time left goes to the next."""
    left, tried = float(request.limit_seconds), {}
    for number, arm in enumerate(arms):
        seconds = left / (len(arms) - number)
        limited = replace(request.of_try, steps=0, limit_seconds=int(seconds) + START_SECONDS)
        own = folder / arm.arm
        terminal.write(f"{arm.arm}: {arm}")
        with Follower(own, seconds, terminal.write, len(arms)) as follower:
            changed = run_arm.Changed(variables={experiment.WHY: "1"}, is_over=follower.is_to_be_ended)
            outcome = run_arm.run(arm, limited, folder, commands.folder(script), changed)
        left -= min(seconds, outcome.seconds)
        of_arm = blocks.tried(own)
        terminal.write(f"  {ended(outcome, of_arm, follower, script, request.limit_seconds)}")
        if of_arm:
            tried[arm.arm] = of_arm
    return tried


def ended(outcome: Outcome, tried: Tried | None, follower: Follower, script: Script, limit_seconds: int) -> str:
    """Return a text that says how a run ended, and what helps if it ended too early."""
    rounds, reason = len(tried.rounds) if tried else 0, follower.ended
    is_short, counted = rounds < why.LEAST_ROUNDS, f"{rounds} round{'' if rounds == 1 else 's'}"
    if reason and (not is_short or not outcome.code or follower.is_to_be_ended()):
        more = f"; give it more, as --limit {min(2 * limit_seconds, MOST_SECONDS)}"
        return f"{counted} in {outcome.seconds:.0f} s: {reason}{more if is_short and reason == TIME_UP else ''}"
    if problem := explain.problem(outcome, script, int(outcome.seconds)):
        return f"{problem}{DIED_LATER if tried else ''}"
    if tried is None:
        return f"the script ended before step {experiment.BEGIN}: give it more epochs"
    return f"the script ended after {counted}: give it more epochs"


def _in_words(arm: str, judged: ArmWhy | Missing) -> str:
    if isinstance(judged, Missing):
        return f"{arm}: nothing can be said: {judged.reason}"
    causes = words.causes(judged) if judged.causes else [words.nothing(judged)]
    numbers = [f"{number}. " if judged.causes else "" for number in range(1, len(causes) + 1)]
    parts = [f"{arm}, {judged.rounds} rounds"]
    parts += [_wrapped(text) for text in [words.where(judged), *words.of_rank(judged), *words.effects(judged)]]
    parts += ["  what makes it long, the largest first" if judged.causes else "  what makes it long"]
    parts += [_wrapped(text, number) for text, number in zip(causes, numbers, strict=True)]
    return "\n".join(parts)


def _wrapped(text: str, number: str = "") -> str:
    return textwrap.fill(f"{number}{text}", WIDTH, initial_indent="  ", subsequent_indent=f"  {' ' * len(number)}")


def kept(
    request: WhyRequest,
    script: Script,
    arms: Mapping[str, ArmWhy | Missing],
    gains: Sequence[Distribution],
    busy: str,
) -> Why:
    """Return the whole content of the result file."""
    of_try = request.of_try
    return Why(
        schema_version=SCHEMA_VERSION,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=request.command,
        script=of_try.keys["script"],
        script_sha256=hashlib.sha256(script.path.read_bytes()).hexdigest(),
        arguments=without_secrets(of_try.arguments),
        workers=of_try.workers,
        cpu_model=cpu.model(),
        busy=busy,
        arms={arm: judged for arm, judged in arms.items() if isinstance(judged, ArmWhy)},
        unknown={arm: judged.reason for arm, judged in arms.items() if isinstance(judged, Missing)},
        distribution=list(gains),
    )


def keep(content: Why, stack: str) -> Path:
    """Write the result file, which replaces an earlier one, and return its path relative to the project. Raise
    ToolError if it cannot be written."""
    path = Path("results", stack, NAME)
    try:
        write_whole(ROOT / path, json.dumps(encode(content), indent=1) + "\n")
    except OSError as error:
        raise ToolError(f"{path} could not be written, so nothing is kept of it: {error.strerror or error}") from None
    return path

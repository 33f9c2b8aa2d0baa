"""What `make try` prints, as text. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compare import claims
from compare.schema import Claim
from report.text_table import columns
from tools.tryout.run_arm import Outcome
from training.workloads.script import same_work
from training.workloads.script.commands import ArmCommand
from training.workloads.script.facts import ArmFacts, ray_changed_nothing, same_threads
from training.workloads.script.python_environment import PACKAGES
from training.workloads.script.recognise import WORDS, Script

LETTERS: dict[Claim, str] = {"same work": "A", "same result": "B", "same script": "C", "it finished": "D"}
MUCH_REPORTING = 0.1
REPEATS = 4
"""Of a full measurement, as the default has it."""


def recognised(script: Script, found: Mapping[str, str], folder: str) -> str:
    """The first lines: what it is, and what its environment has."""
    versions = ", ".join(f"{name} {found[name]}" for name in ("python", *PACKAGES) if name in found)
    data = ", reads with Ray Data" if script.uses_ray_data else ""
    return f"{script.path.name}: {WORDS[script.kind]}{data}\nits environment: {versions}\nevery arm starts in {folder}"


def command_lines(arms: Sequence[ArmCommand]) -> str:
    """Every arm with its whole command, or why it is absent."""
    width = max(len(arm.arm) for arm in arms)
    said = ((arm.arm, f"absent: {arm.absent}" if arm.absent else str(arm)) for arm in arms)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in said)


def table(facts: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome]) -> str:
    """What was seen, a line an arm."""
    rows = [_row(one, outcomes[name]) for name, one in facts.items()]
    title = ("arm", "ranks", "steps", "rows a step", "rows an epoch", "ms a step", "start", "in all", "weights")
    return "\n".join(f"  {line}" for line in columns(title, rows))


def _row(facts: ArmFacts, outcome: Outcome) -> tuple[str, ...]:
    rows = f"{facts.rows_per_step:g}" if facts.rows_per_step else "unknown"
    return (
        facts.arm,
        str(facts.ranks),
        str(facts.steps),
        f"{rows} ({facts.rows_known})" if facts.rows_per_step else rows,
        str(facts.rows_per_epoch or "unknown"),
        f"{1000 * facts.step_seconds:.1f}" if facts.step_seconds else "unknown",
        f"{start_seconds(outcome):.1f} s",
        f"{outcome.seconds:.1f} s",
        facts.weights[:12] if facts.weights else "differ" if facts.weights_equal[0] is False else "unknown",
    )


def start_seconds(outcome: Outcome) -> float:
    """From the start of the arm to the end of its first step, on its slowest rank."""
    began = outcome.end.get("began")
    return max(one.step_ends[0] for one in outcome.seen) - began if began else outcome.seconds


@dataclass(frozen=True)
class Verdict:
    """What a full measurement could claim, by what was seen."""

    claim: Claim | None
    """None: the arms are not comparable, or too little was seen."""
    wrong: tuple[str, ...]
    """What differs, or went wrong."""
    unknown: tuple[str, ...]
    """What is not known, and keeps the claim from A."""


def verdict(facts: Mapping[str, ArmFacts], complete: bool) -> Verdict:
    """Of arms that trained; `complete`: these are all that there should be."""
    items = same_work.compare({name: one.work for name, one in facts.items()})
    threads = same_threads(facts)
    known = [*items.values(), *([threads] if threads[0] is False else [])]
    wrong = [f"{name}: {one.problem}" for name, one in facts.items() if one.problem]
    wrong += [words for value, words in known if value is False]
    unknown = [words for value, words in known if value is None]
    seen = complete and bool(facts)
    claim = claims.strongest(steps=seen, same_work=False if wrong else None if unknown or not seen else True)
    return Verdict(claim, tuple(dict.fromkeys(wrong)), tuple(dict.fromkeys(unknown)))


def findings(facts: Mapping[str, ArmFacts], found: Verdict) -> list[str]:
    """What the arms say of themselves and of each other, what is wrong first."""
    items = same_work.compare({name: one.work for name, one in facts.items()})
    good = [words for known, words in items.values() if known]
    good += [
        f"{name}: {100 * min(1.0, one.report_share):.0f} % of the time between its steps is in ray.train.report, "
        f"{one.report_seconds:.2g} s a call: report less often"
        for name, one in facts.items()
        if one.report_share > MUCH_REPORTING
    ]
    if "ray" in facts and facts["ray"].expected_ranks == 1:
        good.append(
            "one worker shares its work with nobody: this says what Ray itself takes, and not what more workers gain"
        )
    without = [name for name, one in facts.items() if one.ray and name != "ray"]
    if without:
        good.append(f"the script starts Ray in {' and '.join(without)}, too: what it takes is in these times")
    if ray_changed_nothing(facts):
        good.append("native and ray ended with the same weights, bit for bit: Ray changed nothing but where it ran")
    return [*found.wrong, *found.unknown, *good]


def claim(found: Verdict) -> str:
    """The claim that can be reached, and what would raise it."""
    if found.claim is None:
        return f"`make up` would answer *Not comparable*: {'; '.join(found.wrong)}"
    line = f"claim that can be reached: {LETTERS[found.claim]}, {found.claim}"
    if found.claim == "same work":
        return f"{line}: everything may be said, with efficiency and a verdict"
    needed = "B needs a metric that reaches a target in every arm"
    raised = "; ".join(found.unknown) or "not every arm trained"
    return f"{line}. {claims.WORDS[found.claim]}: no speedup and no verdict\nwhat keeps it from A: {raised}\n{needed}"


def no_claim(failed: Sequence[str], outcomes: Mapping[str, Outcome]) -> str:
    """Where an arm failed or was not run, so that `make up` would fail."""
    ran = [name for name in failed if name in outcomes]
    left_out = [name for name in failed if name not in outcomes]
    text = f"\nno claim: {' and '.join(ran)} failed, as `make up` would. Change what is said above, and try again"
    return f"{text}\nnot run, because it would fail likewise: {', '.join(left_out)}" if left_out else text


def next_step(command: str, stack: str) -> str:
    """What to type after a try that can be measured."""
    return f"\nnext: {command} WRITE=1\n      writes the settings of a stack, and then\n      STACK={stack} make up"


def metrics(outcomes: Mapping[str, Outcome]) -> str:
    """Names of the metrics that were seen, and how they can be named."""
    of_arm = {arm: {name for one in outcome.seen for name in one.metrics} for arm, outcome in outcomes.items()}
    names = sorted(set().union(*of_arm.values()))
    if names:
        lacking = {name: ", ".join(arm for arm, seen in of_arm.items() if name not in seen) for name in names}
        return f"metrics: {', '.join(f'{name} (not in {lacking[name]})' if lacking[name] else name for name in names)}"
    return "metrics: none seen in these steps (ray.train.report and the epochs of Keras' fit are looked at)"


def observer_cost(outcomes: Mapping[str, Outcome]) -> str:
    """What the observer itself took, as a share of the steps; no clock has it."""
    spent = [(one.hook_seconds, one.step_ends[-1] - one.step_ends[0], len(one.step_ends))
             for outcome in outcomes.values() for one in outcome.seen if len(one.step_ends) > 1]  # fmt: skip
    share = sum(hook for hook, _, _ in spent) / max(1e-9, sum(length for _, length, _ in spent))
    a_step = sum(hook for hook, _, _ in spent) / max(1, sum(steps for _, _, steps in spent))
    return f"the observer took {1e6 * a_step:.0f} µs a step, {100 * share:.2f} % of it"


def epochs_of(arguments: Sequence[str]) -> int | None:
    """How many epochs a script's arguments name, as `--epochs 3` or `num_epochs=3`; None: they don't."""
    text = re.search(r"(?:^|\s)-*(?:max[-_]|num[-_])?epochs?[= ](\d+)(?!\S)", " ".join(arguments))
    return int(text[1]) if text and int(text[1]) else None


def estimate(
    facts: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome], steps: int, named_epochs: int | None
) -> str:
    """How long `make up` takes, from these runs: with the epochs that the arguments name, else with 2 and with 10.

    What is imported once before the first run of an update takes about as long as an arm takes to start. Of boosters an
    epoch is a round.
    """
    fixed, per_epoch, unknown = 0.0, 0.0, False
    tried = sum(outcome.seconds for outcome in outcomes.values())
    once = min(map(start_seconds, outcomes.values()))
    for name, one in facts.items():
        step = one.step_seconds or 0.0
        fixed += max(0.0, outcomes[name].seconds - one.steps * step)
        per_epoch += (one.steps_per_epoch or 0) * step
        unknown = unknown or not one.steps_per_epoch or not one.step_seconds
    head = f"`make up` runs every arm {REPEATS} times. By these runs that takes about"
    if unknown:
        least = _minutes(once + REPEATS * tried)
        return f"{head} {least}, and longer where an arm makes more than these {steps} steps"
    rounds = next((one.work.items["rounds"] for one in facts.values() if "rounds" in one.work.items), None)
    passes = {int(rounds): "rounds"} if rounds else dict.fromkeys(_few_and_many(named_epochs), "epochs")
    times = {f"{number} {what}": once + REPEATS * (fixed + number * per_epoch) for number, what in passes.items()}
    parts = [f"{_minutes(seconds)} with {what.removesuffix('s') if what == '1 epochs' else what}"
             for what, seconds in times.items()]  # fmt: skip
    return f"{head} {', '.join(parts)}"


def _few_and_many(named: int | None) -> tuple[int, ...]:
    return (2, 10) if named is None else (named, 5 * named)


def _minutes(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )

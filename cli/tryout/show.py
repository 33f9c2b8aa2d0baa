"""The text that `rwi try` prints. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.tryout.request import Request
from cli.tryout.run_arm import Outcome
from compare.answer import CLAIM_WORDS, DECIDES, strongest
from compare.qualifiers import MOST_OBSERVING
from compare.schema import Claim
from compare.words import duration, enumerated
from report.terminal import columns
from training.contract.arms import ARMS, counted
from training.contract.result import PROOF
from training.machine.command_line import rwi
from training.workloads.script import same_work
from training.workloads.script.commands import ArmCommand
from training.workloads.script.facts import OWN_THREADS, ArmFacts, ray_changed_nothing, same_threads
from training.workloads.script.python_environment import PACKAGES
from training.workloads.script.recipe import ScriptRecipe
from training.workloads.script.recognise import WORDS, Script

LETTERS: dict[Claim, str] = {"same work": "A", "same result": "B", "same script": "C", "it finished": "D"}
EQUAL = ": equal in all arms"
MUCH_REPORTING = 0.1
REPEATS = 4
"""Number of repeats in a full measurement with default settings."""


def recognised(script: Script, installed: Mapping[str, str], folder: str) -> str:
    """Return the first lines of the output: the kind of script, and the packages of its environment."""
    versions = ", ".join(f"{name} {installed[name]}" for name in ("python", *PACKAGES) if name in installed)
    data = ", reads with Ray Data" if script.uses_ray_data else ""
    return f"{script.path.name}: {WORDS[script.kind]}{data}\nits environment: {versions}\nevery arm starts in {folder}"


def command_lines(arms: Sequence[ArmCommand]) -> list[str]:
    """Return a line for each arm, with its whole command or the reason why it is absent."""
    width = max(len(arm.arm) for arm in arms)
    descriptions = ((arm.arm, f"absent: {arm.absent}" if arm.absent else str(arm)) for arm in arms)
    return [f"  {name:<{width}}  {text}" for name, text in descriptions]


def table(facts: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome]) -> str:
    """Return a table of the observations, with a line for each arm."""
    rows = [_row(arm_facts, outcomes[name]) for name, arm_facts in facts.items()]
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
    """Return the seconds from the arm's start to the end of the first step in the slowest rank."""
    began = outcome.end.get("began")
    return max(rank.step_ends[0] for rank in outcome.seen) - began if began else outcome.seconds


@dataclass(frozen=True)
class Verdict:
    """The claim that a full measurement could make, by what the try showed."""

    claim: Claim | None
    """None if the arms are not comparable, or if too little was seen."""
    wrong: tuple[str, ...]
    """Differences between the arms, and failures, which exclude every claim."""
    unknown: tuple[str, ...]
    """Facts that are not known, so that claim A (same work) cannot be made."""
    is_other_work: bool = False
    """Whether the proof showed that ranks do other work, so that a metric supports no claim either."""


def verdict(facts: Mapping[str, ArmFacts], complete: bool) -> Verdict:
    """Return the verdict on the arms that trained. `complete` says whether no arm is missing."""
    items = same_work.compare({name: arm_facts.work for name, arm_facts in facts.items()})
    threads = same_threads(facts)
    known = [*items.values(), *([threads] if threads[0] is False else [])]
    wrong = [f"{name}: {arm_facts.problem}" for name, arm_facts in facts.items() if arm_facts.problem]
    wrong += [words for value, words in known if value is False]
    unknown = [words for value, words in known if value is None]
    unknown += ["no step was seen"] if complete and not facts else []
    seen = complete and bool(facts)
    claim = strongest(steps=seen, same_work=False if wrong else None if unknown or not seen else True)
    is_other_work = items.get(PROOF, (True, ""))[0] is None
    return Verdict(claim, tuple(dict.fromkeys(wrong)), tuple(dict.fromkeys(unknown)), is_other_work)


def findings(facts: Mapping[str, ArmFacts], reached: Verdict) -> list[str]:
    """Return findings about the arms and their differences, problems first."""
    items = same_work.compare({name: arm_facts.work for name, arm_facts in facts.items()})
    known = [words for is_known, words in items.values() if is_known]
    equal = [words.removesuffix(EQUAL) for words in known if words.endswith(EQUAL)]
    good = [f"equal in all arms: {'; '.join(equal)}"] if equal else []
    good += [words for words in known if not words.endswith(EQUAL)]
    good += [words for _, words in [same_threads(facts)] if words.startswith(OWN_THREADS)]
    good += [
        f"{name}: {100 * min(1.0, arm_facts.report_share):.0f} % of the time between its steps is in ray.train.report, "
        f"{arm_facts.report_seconds:.2g} s a call: report less often"
        for name, arm_facts in facts.items()
        if arm_facts.report_share > MUCH_REPORTING
    ]
    if "ray" in facts and facts["ray"].expected_ranks == 1:
        good.append(
            "one worker shares its work with nobody: this says what Ray itself takes, and not what more workers gain"
        )
    without = [name for name, arm_facts in facts.items() if arm_facts.ray and name != "ray"]
    if without:
        good.append(f"the script starts Ray in {' and '.join(without)}, too: its start-up counts in their times")
    if ray_changed_nothing(facts):
        good.append("native and ray ended with the same weights, bit for bit: these two differ only in where they ran")
    return [*reached.wrong, *reached.unknown, *good]


def claim(reached: Verdict) -> str:
    """Return the claim that can be reached, and what would raise it."""
    if reached.claim is None:
        return f"`{rwi('up')}` would answer *Not comparable*: {'; '.join(reached.wrong)}"
    line = f"claim that a measurement can reach: {LETTERS[reached.claim]}, {reached.claim}"
    if reached.claim == "same work":
        return f"{line}. It may answer whether Ray is worth it, with speedup and efficiency"
    needed = "" if reached.is_other_work else "\nB needs a metric that reaches a target in every arm"
    raised = "; ".join(reached.unknown) or "not every arm trained"
    return f"{line}. {CLAIM_WORDS[reached.claim]}: no speedup and no verdict\nwhat keeps it from A: {raised}{needed}"


def effect_of_others(outcomes: Mapping[str, Outcome]) -> str:
    """Return what other programs on a busy machine may have done to these arms; "" if no arm has times or took too
    long."""
    if any(outcome.hung for outcome in outcomes.values()):
        return "on a quiet one an arm may end in time"
    has_times = any(outcome.seen or outcome.ray_start for outcome in outcomes.values())
    return "the times are not those of a quiet one" if has_times else ""


def no_answer_yet(outcomes: Mapping[str, Outcome], workers: int, reached: Verdict, *, is_quiet: bool) -> str:
    """Return what the single runs took, and that they answer nothing yet. `native` is left out, because it only says
    what Ray itself takes."""
    recipe = ScriptRecipe(workers=workers)
    names = {arm: ARMS[arm].words(recipe) for arm in ("baseline", "wide")}
    names["ray"] = f"Ray with {counted(workers, 'worker')}"
    times = []
    for arm, words in names.items():
        if outcome := outcomes.get(arm):
            start = f" (start {start_seconds(outcome):.1f} s)" if outcome.seen else ""
            times.append(f"{words} took {outcome.seconds:.1f} s{start}")
    steps = [len(rank.step_ends) for outcome in outcomes.values() for rank in outcome.seen]
    of_steps = f" of {max(steps)} steps" if steps else ""
    busy = "" if is_quiet else " on a busy machine"
    answers = "answers" if reached.claim in DECIDES else "answers only with claim A or B"
    return (
        f"No answer yet: in one run each{of_steps}{busy}, {enumerated(times)}. `{rwi('up')}` measures whole trainings,"
        f" and {answers}"
    )


def no_answer(failed: Mapping[str, Outcome]) -> str:
    """Return the text that arms failed, and that `rwi up` would fail too; not for an arm that took longer than a try
    may, because a run may take longer."""
    what = f"\nno answer: {enumerated(list(failed))} failed"
    if any(outcome.hung for outcome in failed.values()):
        return f"{what}. See above what helps, and try again"
    return f"{what}, and `{rwi('up')}` would fail, too. Correct the script or its arguments, and try again"


def next_step(request: Request) -> str:
    """Return which commands to type after a try of a script that can be measured."""
    return (
        f"next: {request.line('--write')}\n"
        f"      writes the settings of a stack, and then\n      {rwi('up', request.own_stack)}"
    )


def metrics(outcomes: Mapping[str, Outcome]) -> str:
    """Return the names of the metrics that were seen, each with the arms that lack it."""
    of_arm = {arm: {name for rank in outcome.seen for name in rank.metrics} for arm, outcome in outcomes.items()}
    names = sorted(set().union(*of_arm.values()))
    if names:
        lacking = {name: ", ".join(arm for arm, seen in of_arm.items() if name not in seen) for name in names}
        return f"metrics: {', '.join(f'{name} (not in {lacking[name]})' if lacking[name] else name for name in names)}"
    return "metrics: none seen in these steps (ray.train.report and the epochs of Keras' fit are looked at)"


def observer_cost(outcomes: Mapping[str, Outcome]) -> str:
    """Return which share of the steps their observation took; "" if it is small. A step's time does not contain it."""
    spent = [(rank.hook_seconds, rank.step_ends[-1] - rank.step_ends[0])
             for outcome in outcomes.values() for rank in outcome.seen if len(rank.step_ends) > 1]  # fmt: skip
    share = sum(hook for hook, _ in spent) / max(1e-9, sum(length for _, length in spent))
    if share <= MOST_OBSERVING:
        return ""
    return f"; observing the steps took {100 * share:.1f} % of their time, which `ms a step` leaves out"


def epochs_of(arguments: Sequence[str]) -> int | None:
    """Return the epochs in a script's arguments, such as `--epochs 3` or `num_epochs=3`; None without any."""
    text = re.search(r"(?:^|\s)-*(?:max[-_]|num[-_])?epochs?[= ](\d+)(?!\S)", " ".join(arguments))
    return int(text[1]) if text and int(text[1]) else None


def estimate(
    facts: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome], steps: int, named_epochs: int | None
) -> str:
    """Return an estimate of how long `rwi up` takes, with the epochs that the arguments name and five times as many,
    else with 2 and 10.

    The imports before the first run of an update take about as long as the start of an arm. For boosters an epoch is a
    round.
    """
    tried = sum(outcome.seconds for outcome in outcomes.values())
    once = min((start_seconds(outcome) for outcome in outcomes.values() if outcome.seen), default=0.0)
    fixed, per_epoch, unknown = sum(outcomes[name].seconds for name in outcomes if name not in facts), 0.0, False
    for name, arm_facts in facts.items():
        step = arm_facts.step_seconds or 0.0
        fixed += max(0.0, outcomes[name].seconds - arm_facts.steps * step)
        per_epoch += (arm_facts.steps_per_epoch or 0) * step
        unknown = unknown or not arm_facts.steps_per_epoch or not arm_facts.step_seconds
    head = f"`{rwi('up')}` runs every arm {REPEATS} times. By these runs that will take about"
    if not facts:
        return f"{head} {duration(REPEATS * tried)}"
    if unknown:
        least = duration(once + REPEATS * tried)
        return f"{head} {least}, and longer where an arm makes more than these {steps} steps"
    of_passes = passes(facts, named_epochs).items()
    times = {f"{number} {what}": once + REPEATS * (fixed + number * per_epoch) for number, what in of_passes}
    parts = [f"{duration(seconds)} with {what.removesuffix('s') if what == '1 epochs' else what}"
             for what, seconds in times.items()]  # fmt: skip
    return f"{head} {', '.join(parts)}"


def passes(facts: Mapping[str, ArmFacts], named_epochs: int | None) -> dict[int, str]:
    """Return the numbers of epochs, or of boosting rounds, for which times are shown, each with its noun."""
    of_boosters = [arm_facts.work.items for arm_facts in facts.values() if "boosterParameters" in arm_facts.work.items]
    rounds = next((items["rounds"] for items in of_boosters if "rounds" in items), None)
    return {int(rounds): "rounds"} if rounds else dict.fromkeys(_few_and_many(named_epochs), "epochs")


def _few_and_many(named: int | None) -> tuple[int, ...]:
    return (2, 10) if named is None else (named, 5 * named)

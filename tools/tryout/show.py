"""What `make try` prints, as text. Pure."""

from collections.abc import Mapping, Sequence

from compare import claims
from compare.schema import Claim
from report.text_table import columns
from tools.tryout.run_arm import Outcome
from training.workloads.script.commands import ArmCommand
from training.workloads.script.facts import ArmFacts, Together
from training.workloads.script.recognise import WORDS, Script
from training.workloads.script.their_python import PACKAGES

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


def findings(facts: Mapping[str, ArmFacts], both: Together) -> list[str]:
    """What the arms say of themselves and of each other, what is wrong first."""
    wrong = [f"{name}: {one.problem}" for name, one in facts.items() if one.problem]
    wrong += [f"{name}: {words}" for name, one in facts.items() for known, words in checks(one) if known is False]
    if both.weak_scaling:
        wrong.append(
            "weak scaling: each worker has as many rows a step as the baseline, so N workers do N times the work of a "
            "step. To compare the same work, divide the batch by the world size"
        )
    else:
        wrong += [words for known, words in (both.same_rows_per_step, both.same_rows_per_epoch) if known is False]
    wrong += [words for known, words in (both.same_threads, both.same_learning_rate) if known is False]
    good = [words for known, words in (both.same_rows_per_step, both.same_rows_per_epoch) if known]
    for name, one in facts.items():
        if one.expected_ranks > 1:
            good += [f"{name}: {words}" for known, words in checks(one) if known and words]
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
    if both.ray_changed_nothing:
        good.append("native and ray ended with the same weights, bit for bit: Ray changed nothing but where it ran")
    return wrong + good


def checks(facts: ArmFacts) -> tuple[tuple[bool | None, str], ...]:
    """Those of one arm by itself."""
    return facts.weights_equal, facts.rows_disjoint


def claim(facts: Mapping[str, ArmFacts], both: Together, complete: bool) -> str:
    """The claim that can be reached, and what would raise it."""
    known = [check for one in facts.values() for check in checks(one)]
    known += [both.same_rows_per_step, both.same_rows_per_epoch] if facts else []
    problems = [one.problem for one in facts.values() if one.problem]
    lacking = problems + [words for value, words in known if not value]
    lacking += [words for value, words in (both.same_threads, both.same_learning_rate) if value is False]
    if not complete:
        lacking.insert(0, "not every arm trained")
    if complete and any(one.rows_known != "counted" for one in facts.values()):
        lacking.append("rows are not counted, but as the script says")
    reached = strongest_of(facts, lacking, complete)
    line = f"claim that can be reached: {LETTERS[reached]}, {reached}"
    if reached == "same work":
        return f"{line}: everything may be said, with efficiency and a verdict"
    raised = "; ".join(dict.fromkeys(lacking))
    needed = "B needs a metric that reaches a target in every arm"
    return f"{line}. {claims.WORDS[reached]}\nwhat keeps it from A: {raised}\n{needed}"


def strongest_of(facts: Mapping[str, ArmFacts], lacking: Sequence[str], complete: bool) -> Claim:
    """By the one definition in `compare.claims`; arms that did not train leave their end alone."""
    return claims.strongest(steps=complete and bool(facts), same_work=not lacking)


def metrics(outcomes: Mapping[str, Outcome]) -> str:
    """Names of the metrics that were seen, and how they can be named."""
    of_arm = {arm: {name for one in outcome.seen for name in one.metrics} for arm, outcome in outcomes.items()}
    names = sorted(set().union(*of_arm.values()))
    if names:
        lacking = {name: ", ".join(arm for arm, seen in of_arm.items() if name not in seen) for name in names}
        return f"metrics: {', '.join(f'{name} (not in {lacking[name]})' if lacking[name] else name for name in names)}"
    return "metrics: none seen in these steps (ray.train.report and the epochs of Keras' fit are looked at)"


def observer_cost(outcomes: Mapping[str, Outcome]) -> str:
    """What the observer itself took, as a share of the steps."""
    spent = [(one.hook_seconds, one.step_ends[-1] - one.step_ends[0], len(one.step_ends))
             for outcome in outcomes.values() for one in outcome.seen if len(one.step_ends) > 1]  # fmt: skip
    share = sum(hook for hook, _, _ in spent) / max(1e-9, sum(length for _, length, _ in spent))
    a_step = sum(hook for hook, _, _ in spent) / max(1, sum(steps for _, _, steps in spent))
    return f"the observer took {1e6 * a_step:.0f} µs a step, {100 * share:.2f} % of it"


def estimate(facts: Mapping[str, ArmFacts], outcomes: Mapping[str, Outcome], steps: int) -> str:
    """How long a full measurement takes, from these runs: whole epochs where their length is known.

    What is imported once before the first run of an update takes about as long as an arm takes to start.
    """
    fixed, per_epoch, unknown = 0.0, 0.0, False
    tried = sum(outcome.seconds for outcome in outcomes.values())
    once = min(map(start_seconds, outcomes.values()))
    for name, one in facts.items():
        step = one.step_seconds or 0.0
        fixed += max(0.0, outcomes[name].seconds - one.steps * step)
        per_epoch += (one.steps_per_epoch or 0) * step
        unknown = unknown or not one.steps_per_epoch or not one.step_seconds
    whole = _minutes(once + REPEATS * tried)
    lines = [f"a full measurement of {REPEATS} repeats, by these runs: {whole} at {steps} steps an arm"]
    if not unknown:
        for epochs in (1, 10):
            what = "1 epoch" if epochs == 1 else f"{epochs} epochs"
            lines.append(f"  with {what} in every arm: {_minutes(once + REPEATS * (fixed + epochs * per_epoch))}")
    return "\n".join(lines)


def _minutes(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )

"""What `rwi why` found, in words: where a step goes, what removing each cause would gain, and what to change. Pure."""

import math
from collections.abc import Sequence

from compare.step_parts import LEAST_TOLD
from compare.why import INPUT_READY, NO_EXCHANGE, THREADS, ArmWhy, Cause, Distribution, Effect
from compare.words import enumerated
from training.machine.command_line import rwi

CONDITIONS = {
    INPUT_READY: "With input that costs nothing",
    NO_EXCHANGE: "Without an exchange of gradients",
}
"""How a sentence begins, by condition."""
NAMES = {
    INPUT_READY: "input",
    NO_EXCHANGE: "the exchange of gradients",
    "between": "what is done between two steps, as validation or printing",
    "save": "torch.save",
    "report": "ray.train.report",
    "collective": "collectives beside DistributedDataParallel",
}
"""The name of each cause in a text."""
SAVE_LESS = "save less often"
OF_RANK_0 = ("between", "save")
"""Causes that were timed on rank 0 only. Other ranks may not have them."""
ONE_RUN = f"One run does not show whether it does so in others: `{rwi('up')}` with several repeats does"
"""Remark about a slow rank, which may be slow in a run for a reason outside the script, such as its CPU."""
CHANGES = {
    NO_EXCHANGE: "fewer exchanges (no_sync() in all but each second backward), fewer bytes (a hook such as "
    "fp16_compress_hook), or larger batches; for many small gradients another bucket_cap_mb",
    "between": "do it less often, as every 50 steps",
    "save": f"{SAVE_LESS}, or on one rank",
    "report": "report less often, or without a checkpoint",
    "collective": "do it less often, or with asynchronous calls",
}
"""What a user can change against each cause. None of these changes was tried."""

EVEN = "most of it waits for ranks that are slower for a moment: give all of them as much work"


def warning(busy: str) -> str:
    """Return the warning that stands before everything else if other programs ran meanwhile."""
    return f"the machine was not quiet, and what is said here may be of that: {busy}"


def where(why: ArmWhy) -> str:
    """Return where the time of a step goes: `Of a step of 84 ms, 39 wait for input, 15 for gradients (9 of it for rank
    1).`"""
    step, parts = why.step_seconds, why.parts
    waiting = parts.get("waiting", 0.0)
    slower = "slower ranks" if why.slowest_rank is None else f"rank {why.slowest_rank}"
    waits = {
        "input": (parts.get("input", 0.0), ""),
        "gradients": (parts.get("exchange", 0.0) + waiting, f" ({_ms(waiting)} of it for {slower})"),
    }
    waits_shown = [
        f"{_ms(seconds)} @for {what}{more if what == 'gradients' and _is_long(waiting, step) else ''}"
        for what, (seconds, more) in waits.items()
        if _is_long(seconds, step)
    ]
    shown = [text.replace("@", "" if number else "wait ") for number, text in enumerate(waits_shown)]
    others = {"between": "go by between steps", "save": "save", "report": "report", "collective": "are collectives"}
    shown += [f"{_ms(parts[name])} {verb}" for name, verb in others.items() if _is_long(parts.get(name, 0.0), step)]
    if not parts:
        return f"A step takes {_ms(step)} ms; its parts are not known."
    if not shown:
        return f"Of a step of {_ms(step)} ms hardly anything waits."
    return f"Of a step of {_ms(step)} ms, {enumerated(shown)}."


def of_rank(why: ArmWhy) -> list[str]:
    """Return what is said of a rank that was slow in this run; empty if no rank was. One run gives no confidence."""
    if not why.has_slow_rank:
        return []
    clocked = [NAMES[each.name] for each in why.causes if each.name in OF_RANK_0 and why.slowest_rank == 0]
    such = f", as {enumerated(clocked)}" if clocked else ""
    return [
        f"In this run rank {why.slowest_rank} worked {_ms(why.slower_seconds or 0.0)} ms of a step longer than the"
        f" others, who waited for it. {ONE_RUN}. If it does, look for what it does beside the others{such}; a wait is"
        " no gain, so what it would gain is not known."
    ]


def _is_long(seconds: float, step: float) -> bool:
    return seconds >= LEAST_TOLD * step


def effects(why: ArmWhy) -> list[str]:
    """Return a sentence for each condition, whether the condition could be tried or not."""
    return [*(_effect(name, effect, why) for name, effect in why.effects.items()), *not_tried(why)]


def not_tried(why: ArmWhy) -> list[str]:
    """Return a sentence for each condition that could not be tried."""
    return [f"Not tried: {_lower(_condition(name, why))}, because {reason}." for name, reason in why.absent.items()]


def _effect(name: str, effect: Effect, why: ArmWhy) -> str:
    begin = _condition(name, why)
    times = f"{_ms(effect.seconds)} ms ({_ms(effect.lower)} to {_ms(effect.upper)})"
    if effect.decision == "faster":
        gain = _ms(why.step_seconds - effect.seconds)
        cause = next((cause for cause in why.causes if cause.name == name), None)
        also = " Removing it gains more than the clock saw of it: it also slows computing." * bool(
            cause and cause.slows_computing
        )
        if name.startswith(THREADS):
            return f"{begin} a step takes {times}: about {gain} ms can be gained."
        return f"{begin} a step would take {times}: at most {gain} ms can be gained.{also}"
    if effect.decision == "slower":
        return f"{begin} a step takes {times}: longer than as it is."
    if effect.decision == "nothing above noise":
        return f"{begin} a step takes no less, as far as can be told: nothing above noise; {at_most(effect)}."
    return f"{begin} a step would take {times}: not decided; {at_most(effect)}."


def at_most(*effects: Effect) -> str:
    """Return the most that removing any one of these causes can gain, in words."""
    most = math.ceil(100 * max(effect.most_gain for effect in effects))
    return f"at most {most} % of a step can be gained" if most else "nothing can be gained"


def _condition(name: str, why: ArmWhy) -> str:
    if name.startswith(THREADS):
        number = name.removeprefix(THREADS)
        instead = f" instead of {why.threads}" if why.threads > 1 else ""
        return f"With {number} compute thread{'s' if number != '1' else ''} a rank{instead}"
    return CONDITIONS[name]


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]


def causes(why: ArmWhy) -> list[str]:
    """Return a text for each certain cause, the largest first, with what to change against the cause."""
    return [f"{_cause(cause, why)}: {_change(cause, why)}." for cause in why.causes]


def nothing(why: ArmWhy) -> str:
    """Return what is said if no cause is certain: how much can be gained at most."""
    if not why.effects:
        return "Nothing could be tried."
    is_open = any(effect.decision == "not decided" for effect in why.effects.values())
    decision = "No cause is certain" if is_open else "Nothing above noise"
    return f"{decision}; {at_most(*why.effects.values())} by what was tried."


def _cause(cause: Cause, why: ArmWhy) -> str:
    amount = f"{_ms(cause.seconds)} ms ({_ms(cause.lower)} to {_ms(cause.upper)})"
    if cause.name.startswith(THREADS):
        return f"{why.threads} compute threads a rank, {amount}"
    return f"{NAMES[cause.name]}, at most {amount}"


def _change(cause: Cause, why: ArmWhy) -> str:
    """Return what the user can type or change against a cause, and which part of that was tried."""
    if cause.name.startswith(THREADS):
        number = cause.name.removeprefix(THREADS)
        return f"--env OMP_NUM_THREADS={number}; tried by torch.set_num_threads({number})"
    if cause.name == INPUT_READY:
        if why.loader_workers:
            return "cheaper rows (decoded before, or fewer steps of work), or another num_workers; neither was tried"
        return "DataLoader(…, num_workers=1, persistent_workers=True), or cheaper rows; neither was tried"
    return f"{_untried(cause, why)}; not tried"


def _untried(cause: Cause, why: ArmWhy) -> str:
    if cause.name == "save" and why.slowest_rank == 0:
        return SAVE_LESS
    uneven = cause.name == NO_EXCHANGE and not why.slowest_rank
    if uneven and why.parts.get("waiting", 0.0) > why.parts.get("exchange", 0.0):
        return f"{EVEN}; {CHANGES[cause.name]}"
    return CHANGES[cause.name]


def distributions(gains: Sequence[Distribution]) -> list[str]:
    """Return what distribution gains if a cause is removed in both arms."""
    return [
        f"{CONDITIONS[each.condition]} in both, {each.above} would train"
        f" {each.changed:.2f} times as fast ({each.lower:.2f} to {each.upper:.2f}) as {each.below};"
        f" as they were in these two runs, {each.as_is:.2f} times."
        for each in gains
    ]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f}" if seconds >= 0.0995 else f"{1000 * seconds:.1f}"

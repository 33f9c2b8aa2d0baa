"""Checks between the settings of every workload: workers, seeds, tracking.

Not here: the rules of one key (`infra.settings.sections`), and the checks of storage (`infra.settings.storage`), of one
workload (`infra.settings.cnn`) or one place (`infra.places`).
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from infra.settings import storage
from infra.settings.draft import Check, Draft
from infra.settings.problem import Problem, set_line
from training.contract.repeats import FIRST_REPEATS
from training.machine.command_line import again, rwi


def fewer_workers(draft: Draft) -> tuple[int, ...]:
    """Return the numbers of workers in `workersCurve` other than `workers`, ascending."""
    return tuple(sorted(set(draft.run.workers_curve) - {draft.recipe.workers}))


def _curve_ends_at_workers(draft: Draft) -> Iterator[Problem]:
    curve, workers = draft.run.workers_curve, draft.recipe.workers
    if not curve or (fewer_workers(draft) and max(curve) <= workers):
        return
    raised = [set_line("workers", max(curve))] if len(set(curve)) > 1 else []
    fitting = [number for number in fewer_workers(draft) if number < workers] or [1]
    lowered = [set_line("workersCurve", ",".join(map(str, (*fitting, workers))))] if workers > 1 else []
    yield Problem(
        f"{draft.shown('workersCurve')} with {draft.shown('workers')}",
        "none, or numbers up to workers with at least one below it",
        (*lowered, *raised, set_line("workersCurve", "none")),
        why="the curve ends at `workers`, whose runs the comparison has anyway",
    )


def _seeds_stay_valid(draft: Draft) -> Iterator[Problem]:
    rule, repeats = draft.keys["seed"].rule, draft.run.repeats.most
    try:
        rule.parse(str(draft.recipe.seed + repeats - 1))
    except ValueError:
        yield Problem(
            f"{draft.shown('seed')} with {draft.shown('repeats')}",
            f"{rule.allowed}, for the last repeat too",
            (set_line("seed", draft.recipe.seed - repeats + 1),),
            why=f"repeat {repeats} uses seed + {repeats - 1}",
        )


def _auto_measures_all_arms_anew(draft: Draft) -> Iterator[Problem]:
    """Refuse what has not been thought through: its intervals hold for whole repeats of the arms alone."""
    if not draft.run.repeats.is_auto:
        return
    others = {
        "keepBaseline": (draft.run.keep_baseline, "a kept baseline would be looked at in two measurements", "false"),
        "workersCurve": (bool(draft.run.workers_curve), "no rule says yet when the curve is decided", "none"),
    }
    for key, (is_set, why, off) in others.items():
        if is_set:
            yield Problem(
                f"{draft.shown('repeats')} with {draft.shown(key)}",
                f"{key} {off}, or a number of repeats",
                (set_line(key, off), set_line("repeats", FIRST_REPEATS)),
                why=why,
            )


def _tracking_is_an_address(draft: Draft) -> Iterator[Problem]:
    """Refuse anything but an address, without showing it: the comparison is public, and the rest may be a
    credential."""
    key = draft.keys["trackingUri"]
    if key.name in draft.facts.secret_keys:
        yield Problem(
            f"{key.name} is set with --secret", key.rule.allowed,
            (f"pulumi config rm {key.name} && {set_line(key.name, key.example)}",),
            why="the comparison says to which server it was written",
        )  # fmt: skip
        return
    address = _address_alone(draft.comparison.tracking_uri or "")
    if address != (draft.comparison.tracking_uri or ""):
        yield Problem(
            f"{key.name} holds more than the address of a server", key.rule.allowed,
            (set_line(key.name, address or key.example),),
            why="MLflow's client takes user and password from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, "
            f"a token from MLFLOW_TRACKING_TOKEN: `export` them before `{again('up')}`",
        )  # fmt: skip


def _address_alone(address: str) -> str:
    """Return scheme, host, port and path; "" without a host, or with an invalid port."""
    try:
        parts = urlsplit(address)
        usable = parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if usable else ""


def _tracking_is_installed(draft: Draft) -> Iterator[Problem]:
    if draft.comparison.tracking_uri and not draft.facts.tracking_installed:
        yield Problem(
            draft.shown("trackingUri"), "not set, unless MLflow's client is installed",
            ("uv sync --frozen --inexact --extra tracking", "pulumi config rm trackingUri"),
            why=f"`{rwi('up')}` installs it for a stack that sets this key",
        )  # fmt: skip


def _gpus_that_have_a_price_exist(draft: Draft) -> Iterator[Problem]:
    if draft.comparison.price_gpu_hour is not None and not draft.recipe.worker_gpus:
        why = "no run has a GPU, so it would have no effect"
        yield Problem(
            draft.shown("priceGpuHour"), "not set without workerGpus", ("pulumi config rm priceGpuHour",), why=why
        )


CHECKS: tuple[Check, ...] = (
    _curve_ends_at_workers,
    _seeds_stay_valid,
    _auto_measures_all_arms_anew,
    storage.problems,
    _tracking_is_an_address,
    _tracking_is_installed,
    _gpus_that_have_a_price_exist,
)

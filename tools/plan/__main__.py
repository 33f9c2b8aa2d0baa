"""`make plan`: how long the measurement of STACK will probably take, or what to run first to know that.

It reads files of this machine, starts nothing and asks no cluster. A whole measurement is counted: of one that was
broken off `make up` keeps the runs that there are.
"""

import shlex
from collections.abc import Mapping, Sequence

from infra import budget, estimate, run_history
from infra.estimate import Estimate, Wanted
from infra.run_history import Basis
from infra.settings.key import LOCAL
from infra.settings.settings import Settings
from report import terminal
from report.text_table import columns
from tools.setup.project import run_main
from tools.stack import settings as stack_settings
from tools.stack.lines import for_make
from training.contract import timed
from training.contract.timed import Timed

VARIABLES = {"SCRIPT": "script", "ARGS": "scriptArguments", "KIND": "scriptKind", "PYTHON": "python",
             "ENV": "environment", "WORKERS": "workers"}  # fmt: skip
"""Variables of `make try`, each with its key."""


def main() -> int:
    """Print the estimate, or that nothing is known."""
    stack, overrides = stack_settings.stack_and_overrides("plan", __doc__)
    settings = stack_settings.load(stack, overrides)
    request = estimate.wanted(settings)
    basis = run_history.known(settings, request)
    estimated = estimate.estimate(request, basis.runs)
    runs = _count(request.runs, "run")
    terminal.write(f"stack {stack}: {_count(request.repeats, 'repeat')} of {_count(len(request.sides), 'arm')}, {runs}")
    if estimated is None:
        terminal.write(unknown(settings, request, basis))
        return 0
    terminal.write(f"by {basis.words}\n\n{shown(request, estimated)}")
    if settings.target not in LOCAL:
        terminal.write("not in it: what the cluster, its image and its pods take to come up")
    if settings.run.budget_minutes:
        advice = "\n".join(budget.advice(settings, request, basis.runs, estimated))
        terminal.write(f"\n{for_make(advice, stack, overrides)}")
    return 0


def shown(request: Wanted, estimated: Estimate) -> str:
    """Return the estimate by phase, and the total."""
    rows = [
        (
            each.side.name,
            str(request.repeats),
            *map(str, (each.startup, each.rest, each.whole)),
            _known(each.known_runs),
        )
        for each in estimated.sides
    ]
    title = ("arm", "runs", "start-up", "after it", "a run", "from")
    lines = [f"  {line}" for line in columns(title, rows)]
    lines.append(f"  before the first run: {estimated.once}; between runs: {estimated.between:.1f} s")
    return "\n".join([*lines, f"in all {estimated.total}"])


def _known(runs: int) -> str:
    return _count(runs, "run") + ("" if runs > 1 else f", ±{100 * estimate.OF_ONE_RUN:.0f} % assumed")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def unknown(settings: Settings, request: Wanted, basis: Basis) -> str:
    """Return why there is no estimate, and what to run."""
    lacking = estimate.missing(request, basis.runs)
    what = "nothing" if len(lacking) == len(request.sides) else "not everything"
    first = f"no estimate: {what} was run yet with these settings; {_list(lacking)} would be new"
    other = _otherwise(settings, [each for each in basis.runs if each.arm in lacking])
    again = any(key not in VARIABLES.values() for key in other)  # `make try` would be as it was
    return "\n".join([first, *_to_measure(settings, other), _one_repeat(settings) if again else _to_run(settings)])


def _otherwise(settings: Settings, known: Sequence[Timed]) -> dict[str, object]:
    """Return the differing values, by key, of the known run that is most like these settings."""
    differing = [(timed.differences(each, settings.recipe), each) for each in known]
    keys, nearest = min(differing, key=lambda keys_and_run: len(keys_and_run[0]), default=([], None))
    return {key: nearest.recipe[key] for key in keys} if nearest else {}


def _to_measure(settings: Settings, other: Mapping[str, object]) -> list[str]:
    if not other:
        return []
    own = settings.recipe.to_dict()
    return ["what was run had " + _list([f"{key} {value}, here it is {own.get(key)}" for key, value in other.items()])]


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _one_repeat(settings: Settings) -> str:
    return f'one repeat shows it, and its runs are kept:\n  STACK={settings.stack} make up SET="repeats=1"'


def _to_run(settings: Settings) -> str:
    recipe = settings.recipe.to_dict()
    if "script" not in recipe:
        return _one_repeat(settings)
    variables = {name: settings.explicit[key] for name, key in VARIABLES.items() if key in settings.explicit}
    words = " ".join(f"{name}={shlex.quote(text)}" for name, text in variables.items())
    bounded = "" if "{epochs}" in recipe["scriptArguments"] else (
        "\nIt ends every arm after about 20 steps. How many steps a whole training makes is known if it makes fewer "
        "(STEPS=1000), or if you set measureSteps"
    )  # fmt: skip
    return f"about 20 steps of every arm show it:\n  make try {words}{bounded}"


if __name__ == "__main__":
    run_main(main)

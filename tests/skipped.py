"""Says in a few lines what was skipped: how many tests of which folders, by what brings them."""

import re
from collections import Counter
from collections.abc import Iterable

COMMAND = "`./rwi test --slow`"
LEFT_OUT = f"slow: {COMMAND} runs it"
"""Why a test was skipped that `rwi test` leaves out; `cli.tiers` counts by it."""
BEGIN_UNTIL = "--begin-until"
LATE = f"late: it would have begun after {BEGIN_UNTIL}"
"""Why a test was skipped for lack of time; `cli.tiers` names its file."""
KINDS = {
    f"slow tests: {COMMAND} runs all": "^slow: ",
    "no time was left: they would have begun too late": "^late: ",
    "Ray's dashboard: TRY_DASHBOARD_PYTHON, TRY_PROMETHEUS": r"TRY_DASHBOARD|Prometheus|ray\[default\]|GPUs",
    "scripts with PyTorch, boosters, RLlib: TRY_PYTHON, TRY_TREES_PYTHON, TRY_RLLIB_PYTHON name environments": (
        "TRY_(PYTHON|TREES|RLLIB)|[Pp]y[Tt]orch|torch|moto|beside the project|needs .* environment"
    ),
    "other servers and hosts: TRY_MLFLOW_PYTHON, TRY_LANGUAGE_HOST": "MLflow|TRY_MLFLOW|TRY_LANGUAGE_HOST",
    "a real cluster, and docker: `./rwi test --cluster`": "CLUSTER=1|docker|BuildKit|Pulumi plugin",
    "Pulumi's plugin of Kubernetes: pulumi-resource-kubernetes on PATH": "pulumi-resource-kubernetes",
    "a control plane's programs: CLUSTER_ENV, KUBERAY_CHART": (
        "CLUSTER_ENV|KUBERAY_CHART|KUEUE|PROMETHEUS_OPERATOR|helm"
    ),
    "programs on PATH, or `./rwi test`": "on PATH|on this machine|no C compiler|uv's cache|uv sync|[Pp]ython 3",
}
"""What brings tests, by a pattern of the reasons."""
OF_THE_MACHINE = "not on this machine: another system, or user, or number of CPUs"


def kind_of(reason: str) -> str:
    """Return what brings a test that was skipped for that reason."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, reason)), OF_THE_MACHINE)


def lines(skipped: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line for each kind, from the tests' names and reasons."""
    folders: dict[str, Counter[str]] = {}
    for name, reason in skipped:
        folder = "/".join(name.split("::")[0].split("/")[1:2])
        folders.setdefault(kind_of(reason.removeprefix("Skipped: ")), Counter())[folder] += 1
    most_first = sorted(folders.items(), key=lambda each: -sum(each[1].values()))
    where = {
        kind: ", ".join(f"{folder} {count}" for folder, count in sorted(each.items())) for kind, each in most_first
    }
    return [f"{sum(folders[kind].values())} skipped ({text}): {kind}" for kind, text in where.items()]

"""Files can be read from the ground up: none imports itself over others, and imports stand at the top."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from graphlib import TopologicalSorter

from tests.unit.test_imports import FILES, TABLE, imports, module_of, parsed

LATE = {
    ("infra.places.place", "infra.places.*.place"): "the chosen place alone: each has packages of its own",
    ("infra.places.*.place", "infra.places.cluster.components.*"): "pulumi_kubernetes takes seconds",
    ("infra.places.kubernetes.place", "infra.places.kubernetes.pinned_cluster"): "pulumi_kubernetes takes seconds",
    ("infra.places.minikube.place", "infra.places.minikube.cluster"): "pulumi_command, which local stacks lack",
    ("infra.places.minikube.place", "infra.image.training_image"): "pulumi_command, which local stacks lack",
    ("training.workloads.cnn.registry", "training.workloads.cnn.*"): "the chosen data set and model: TensorFlow",
    ("training.launch.ray.driver", "training.launch.ray.recovery"): "ray.train, which a start-up is measured with",
    ("training.workloads.search.driver", "training.workloads.search.with_*"): "the arm's own: Ray, or Optuna",
    ("report.__main__", "report.*"): "the chosen command: matplotlib, pandas or jinja2",
    ("report.publish", "report.html"): "matplotlib and jinja2, for a page that is not always written",
    ("bench.lesson.table", "report.*"): "matplotlib, after the measurement",
    ("bench.lesson.ways", "training.launch.ray.driver"): "Ray: its import is timed, and others are measured without it",
    ("cli.commands.*", "*"): "the chosen command",
    ("cli.door", "cli.s*"): "infra, for the settings of a call that is only checked",
    ("cli.stack.settings", "infra.places.place"): "pulumi, which the check before anything is installed does without",
    ("cli.stack.stack", "*"): "infra, pulumi or kubernetes, which the commands about results do without",
    ("cli.recovery.recovery", "cli.recovery.on_cluster"): "kubernetes, of a cluster alone",
    ("cli.sweep.sweep", "report.sweep_page"): "matplotlib, after the measurement",
    ("cli.why.why", "report.why_page"): "matplotlib, after the measurement",
    ("cli.options", "*"): "what a script's options are read by, where a command has them",
    ("cli.setup.start", "*"): "the door, in the project's environment",
    ("cli.follow.watch", "cli.*"): "runs of the chosen target: pulumi and kubernetes for those of a cluster",
    ("cli.stack.followed", "*"): "rich, where a terminal shows a screen",
    (
        "cli.setup.pulumi_cli",
        "cli.pulumi_from_source.build",
    ): "Go modules, where the vendor's download is not reachable",
    ("cli.stack.recovery", "cli.look.update"): "pulumi, after an update that was killed",
}
"""Which module may import which inside a function, and why."""
PICKLED = (
    "claim",
    "crds",
    "image_check",
    "job_result",
    "ray_dashboards",
    "ray_ready",
    "run_credentials",
    "storage_probe",
)
"""Modules of a cluster's dynamic resources."""


def module_names() -> set[str]:
    """Every module of the project but tests."""
    return {module_of(path) for path in FILES}


def late_imports() -> Iterator[tuple[str, str]]:
    """Modules with the modules of the project that they import inside functions."""
    tops, modules = {room.partition(".")[0] for room in TABLE}, module_names()
    for path in FILES:
        functions = [
            node for node in ast.walk(parsed(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for node in {inner for function in functions for inner in ast.walk(function)}:
            if isinstance(node, ast.Import):
                yield from ((module_of(path), a.name) for a in node.names if a.name.partition(".")[0] in tops)
            elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in tops:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from ((module_of(path), name if name in modules else node.module) for name in names)


def test_no_files_import_each_other_in_a_circle() -> None:
    """Under TYPE_CHECKING and in functions, too: what knows each other is one thing, or one of them knows too much.

    A CycleError names those that do.
    """
    modules = module_names()
    graph = {module_of(path): imports(path) & modules for path in FILES}

    assert modules == {*TopologicalSorter(graph).static_order()}


def test_imports_stand_in_functions_for_a_listed_reason_alone() -> None:
    """Packages that take seconds, and what only the chosen one needs."""
    found = set(late_imports())
    unlisted = [pair for pair in sorted(found) if not any(fnmatch(pair[0], a) and fnmatch(pair[1], b) for a, b in LATE)]

    unused = [pair for pair in LATE if not any(fnmatch(a, pair[0]) and fnmatch(b, pair[1]) for a, b in found)]

    assert ([], []) == (unlisted, unused)


def test_the_rooms_of_a_cluster_have_floors() -> None:
    """Manifests know no client, clients no component; and neither knows what is pickled, which keeps its place."""
    above = {"manifests": ("api", "components"), "api": ("components",)}
    room = "infra.places.cluster"
    pickled = {f"{room}.{name}" for name in PICKLED}

    for name, others in above.items():
        used = {module for path in FILES if module_of(path).startswith(f"{room}.{name}.") for module in imports(path)}
        forbidden = tuple(f"{room}.{other}" for other in others)
        assert set() == {module for module in used if module.startswith(forbidden)} | (used & pickled)

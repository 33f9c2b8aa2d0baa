"""A place says what is its own; nothing else asks which one it is."""

import re
from pathlib import Path

import pytest

from cli.follow.watch import SOURCES
from cli.setup.project import CLUSTER_TARGETS
from infra.places.cluster.place import ClusterPlace
from infra.places.place import PLACES, choose, cluster_of
from infra.settings.cnn import AUTO_DATASETS
from infra.settings.key import CLUSTER, TARGETS

ROOT = Path(__file__).resolve().parents[3]
NAME = rf"""["'](?:{"|".join(name for name in PLACES if name != "ray")})["']"""
COMPARED = re.compile(rf"""(?:[=!]=|\bin) ?\(?{NAME}|{NAME} ?[=!]=|target ?[=!]= ?["']ray["']""")
"""A place's name in a comparison; `ray` is an arm's name, and a way to start, too."""
ALLOWED = {
    "compare/quiet.py": 1,  # the comparison is of runs that were made anywhere: it knows their place by name alone
    "compare/qualifiers.py": 2,
    "compare/projection.py": 1,
}


def test_every_target_is_a_place_and_says_its_name() -> None:
    """The lists that are kept where the program can't be imported are those of the places."""
    clusters = tuple(target for target in PLACES if isinstance(choose(target), ClusterPlace))

    assert list(TARGETS) == list(PLACES) == [choose(target).target for target in PLACES]
    assert clusters == CLUSTER == CLUSTER_TARGETS
    assert set(PLACES) == set(SOURCES) == set(AUTO_DATASETS)
    assert set(PLACES) <= {path.name.split(".")[1] for path in (ROOT / "stacks").glob("Pulumi.*.yaml")}


def test_only_a_cluster_is_looked_into() -> None:
    """For what asks without looking at the settings first."""
    assert "minikube" == cluster_of("minikube").target
    with pytest.raises(ValueError, match="local"):
        cluster_of("local")


def test_the_name_of_a_place_is_compared_nowhere_else() -> None:
    """A branch on it is one that the next place would be forgotten in."""
    tops = ("infra", "cli", "report", "training", "bench", "policy", "compare")
    files = [ROOT / "__main__.py", *(path for top in tops for path in (ROOT / top).rglob("*.py"))]
    compared = {str(path.relative_to(ROOT)): len(COMPARED.findall(path.read_text(encoding="utf-8"))) for path in files}

    assert ALLOWED == {path: count for path, count in compared.items() if count}

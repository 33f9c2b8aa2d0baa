"""What a ClusterQueue may use of its cohort: Kueue's own count: tests/platform/test_queue_cohorts.py."""

from typing import Any

import pytest

from infra.places.kubernetes.cohorts import CohortCycleError, Cohorts
from tests.unit.kueue_objects import group

CPU = ("default", "cpu")


def item(name: str, quota: str, **spec: Any) -> dict[str, Any]:
    """A ClusterQueue or a Cohort with a quota of CPUs."""
    return {"metadata": {"name": name}, "spec": {"resourceGroups": [group({"default": {"cpu": quota}})], **spec}}


@pytest.mark.parametrize(
    ("own", "other", "most"),
    [
        ("4", "3", 7),
        ("4", "3 lends 1", 5),
        ("4", "3 lends 0", 4),
        ("4", "3 lends 9", 7),
        ("4 borrows 2", "3", 6),
        ("4 borrows 0", "3", 4),
        ("4 borrows 9", "3", 7),
        ("4 borrows 2", "3 lends 1", 5),
        ("4 lends 1", "3", 7),
        ("4 lends 0 borrows 1", "3", 5),
        ("0", "3", 3),
    ],
)
def test_what_the_others_lend_counts(own: str, other: str, most: float) -> None:
    """Less what they keep, and up to what may be borrowed; what it keeps itself is its own."""
    queues = [item("team", own, cohortName="all"), item("other", other, cohortName="all")]

    assert most == Cohorts(queues, []).most("team", CPU)


def test_cohorts_have_quota_of_their_own_and_are_in_others() -> None:
    """A Cohort without an object has none; its limits hold for all that is below it."""
    queues = [item("team", "1", cohortName="inner"), item("far", "8", cohortName="other")]
    outer = item("outer", "2")

    assert 1 == Cohorts(queues, []).most("team", CPU)
    assert 4 == Cohorts(queues, [item("inner", "3")]).most("team", CPU)
    assert 6 == Cohorts(queues, [item("inner", "3", parentName="outer"), outer]).most("team", CPU)
    assert 5 == Cohorts(queues, [item("inner", "3 borrows 1", parentName="outer"), outer]).most("team", CPU)
    below = [item(name, "0", parentName="outer") for name in ("inner", "other")]
    assert 11 == Cohorts(queues, [*below, outer]).most("team", CPU)
    assert 8 == Cohorts(queues, [below[0], item("other", "0 lends 5", parentName="outer"), outer]).most("team", CPU)


def test_outside_of_a_cohort_nothing_is_lent() -> None:
    """A limit for borrowing has no effect there; the cohort of an older API counts, and other flavours do not."""
    other = item("other", "3", cohortName="all")

    assert 4 == Cohorts([item("team", "4 borrows 1"), other], []).most("team", CPU)
    assert 7 == Cohorts([item("team", "4", cohort="all"), other], []).most("team", CPU)
    assert 0 == Cohorts([item("team", "4", cohortName="all"), other], []).most("team", ("spot", "cpu"))


def test_cohorts_that_are_each_other_s_parents_are_refused() -> None:
    """Kueue admits nothing there; a queue beside them has its own."""
    queues = [item("team", "4", cohortName="a"), item("beside", "3", cohortName="c")]
    tree = Cohorts(queues, [item("a", "0", parentName="b"), item("b", "0", parentName="a")])

    with pytest.raises(CohortCycleError, match="a, b"):
        tree.most("team", CPU)
    assert 3 == tree.most("beside", CPU)

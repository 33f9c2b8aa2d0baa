"""Which arms a measurement lacks, and why. From the settings and this machine's facts alone.

A preview may see no cluster, and it must promise the runs that the update makes: so no node is asked.
"""

from collections.abc import Sequence
from dataclasses import replace

from infra.settings.draft import Draft, set_line
from infra.settings.fit import GIB, Measurement, Size, cluster_fit, node_that_fits
from training.contract.arms import ARMS

ON, OFF, AUTO = "true", "false", "auto"


def absent_arms(draft: Draft) -> dict[str, str]:
    """Why an arm is not measured, by its name; arms that are measured are not in it."""
    reasons = {
        "wide": _why_not_wide(draft),
        "native": "" if draft["nativeArm"] else "nativeArm is off",
        "tuned": _why_not_tuned(draft),
    }
    return {arm: reason for arm, reason in reasons.items() if reason}


def measurement_of(draft: Draft) -> Measurement:
    """What the settings ask of a cluster."""
    return replace(_without_wide(draft), wide_arm=not _why_not_wide(draft))


def without_arms_line(arms: Sequence[str]) -> list[str]:
    """The command line that leaves these arms out; none for none."""
    return [" && ".join(set_line(ARMS[arm].switch, OFF) for arm in arms)] if arms else []


def _without_wide(draft: Draft) -> Measurement:
    return Measurement(
        workers=draft["workers"],
        worker=Size(draft["workerCpus"], draft["workerMemory"].bytes),
        head=Size(draft["headCpus"], draft["headMemory"].bytes),
        native_arm=draft["nativeArm"],
    )


def _why_not_tuned(draft: Draft) -> str:
    if draft.target != "local":
        return "it is a Ray that starts for each run, on target local"
    return "" if draft["tunedRay"] else "tunedRay is off"


def _why_not_wide(draft: Draft) -> str:
    if draft["wideArm"] == OFF:
        return "wideArm is off"
    if draft["workers"] == 1:
        return "with one worker it is the baseline"
    if draft["wideArm"] == ON or draft.target == "local":
        return ""
    if draft.target == "kubernetes":
        return f"whether a node holds it is not known at preview; if one does: {set_line('wideArm', ON)}"
    return _why_no_minikube_node(draft)


def _why_no_minikube_node(draft: Draft) -> str:
    """Empty where the arm fits, and asks for no more of this machine than the other arms do."""
    others, nodes = _without_wide(draft), draft["minikubeNodes"]
    asked, node = replace(others, wide_arm=True), Size(draft["minikubeCpus"], draft["minikubeMemory"].bytes)
    if "wide" in cluster_fit(asked, [node] * nodes):
        larger = node_that_fits(replace(asked, native_arm=False), nodes, node)
        pod = f"its pod of {asked.wide} beside the idle Ray pods"
        return f"no Minikube node of {node} holds {pod}; nodes of {larger} do"
    before, most = others.most(nodes), asked.most(nodes)
    cores, memory = draft.facts.physical_cores, draft.facts.memory_bytes
    if most == before or (most.cpus <= cores and most.memory_bytes <= memory):
        return ""
    return f"it needs a machine with {most}, and this one has {cores} cores and {memory // GIB} GiB"

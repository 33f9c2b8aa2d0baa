"""The documents' commands that need a cluster: those that the cluster story runs, and why it has others elsewhere."""

import re
from collections.abc import Iterator

from tests.docs import markdown
from tests.docs.markdown import Command

NEEDS_ONE = re.compile(
    r"\./rwi .*--stack (minikube|ci)\b|minikube (--profile=|logs)|"
    r"kubectl ([^<…]*|.*job/<name>)$|HEAD=|(export )?KUBECONFIG="
)
"""How a command begins that needs a cluster which the stack has made; one with another `<…>` in it is a pattern."""
ELSEWHERE = {
    r"\./rwi destroy": "the story's last chapter",
    r"\./rwi status --watch": "the chapter of a worker that waits",
    r"\./rwi (set offline|up .*--set .?offline)": "the stack's own setting, which stays",
    r"\./rwi (sweep|up .*--set .?repeats)": "more measurements than the story has time for",
    r"\./rwi jobs logs train-1": "a job of a script of the reader's",
    r"KUBECONFIG=\S+ minikube \S+ stop": "the chapter of a stopped cluster",
    r"kubectl logs(| --previous)$": "the name of a pod is to follow",
    r"kubectl port-forward$": "the name of a service is to follow",
    r"kubectl config use-context$": "what the reader is not to do",
    r"kubectl (describe workloads|patch workload|auth can-i list localqueues)": "a cluster with Kueue",
    r"kubectl get prometheus ": "a cluster with a Prometheus Operator",
    r"kubectl --kubeconfig=.state/kubeconfig/STACK ": "STACK is to be replaced",
}
"""Commands that the story does not run as they stand, and why."""


def commands() -> list[Command]:
    """Return each once: those of `rwi` first, in the reader's environment, then one that the others need."""
    texts = {name: markdown.read(name) for name in markdown.documents()}
    in_blocks = (each for name, text in texts.items() for each in markdown.commands(name, text))
    in_lines = (each for name, text in texts.items() for each in markdown.inline_code(name, text))
    found = {re.sub(" +#.*", "", each.text): each for each in (*in_lines, *in_blocks) if NEEDS_ONE.match(each.text)}
    return sorted(found.values(), key=_rank)


def run_by_the_story(stack: str, profile: str, job: str) -> Iterator[Command]:
    """Yield those that the story runs, for its stack, the stack's profile and a job of its cluster."""
    for each in commands():
        if not any(re.match(kind, each.text) for kind in ELSEWHERE):
            text = re.sub("(--stack |/kubeconfig/)minikube", rf"\1{stack}", each.text)
            text = text.replace("job/<name>", job).replace("ray-worth-it-minikube", profile)
            yield Command(each.place, text, each.info)


def _rank(command: Command) -> tuple[bool, bool, str, int]:
    is_of_rwi, is_first = command.text.startswith("./rwi "), command.text.startswith("export ")
    return not is_of_rwi, not is_first, command.place.document, command.place.line

"""Writes the tables of docs/settings.md and the keys of Pulumi.yaml from `infra.settings.table`, between the marker
lines of each. A test compares them with what this writes."""

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from infra.settings.key import CLUSTER, KUBERNETES, MINIKUBE, RAY, TARGETS, Key
from infra.settings.table import every_key, keys_of
from training.contract.codec import write_whole
from training.contract.recipe import WORKLOADS

ROOT = Path(__file__).resolve().parents[2]

_EVERY = "Every measurement"
_OF_WORKLOADS = {
    "cnn": "The CNN (`workload cnn`)",
    "script": "A script (`workload script` and `search`)",
    "search": "A search (`workload search`)",
}
_OTHERS: dict[str | tuple[str, ...], str] = {
    "storage": "Storage",
    CLUSTER: "Clusters (`minikube` and `kubernetes`)",
    "workerGpus": "GPUs (`workload script`)",
    "monitoring": "Metrics (`minikube` and `kubernetes`)",
    MINIKUBE: "Minikube (`minikube`)",
    KUBERNETES: "A cluster that exists (`kubernetes`)",
    RAY: "A Ray cluster that exists (`ray`)",
}
"""Headings in docs/settings.md after those of the workloads, in their order: by the key that the section's other keys
need, or by their targets."""
_SHORTER = {
    r"a whole number from (\d+) to (\d+)": r"\1 to \2",
    r"a whole number from (\d+) up": r"\1 or more",
    r"a number from (\S+) up to (\S+)": r"a number, \1 to \2",
    r"a number above 0 and up to (\S+)": r"a number above 0, to \1",
    r"^true or false$": "true, false",
    r"^one of ": "",
    r"at most (\d+) small letters, digits and -, with a letter or digit at both ends": r"a name of \1",
    r"at most (\d+) small letters, digits, - and \., with a letter or digit at both ends": r"a name of \1, also .",
    r"from (\w+) to (\w+), as Kubernetes writes memory: 1536Mi, 2Gi": r"memory, \1 to \2",
    r"quoted as in a shell": "quoted",
}
"""How the page writes a rule that many keys have; its first lines say what that means."""


_FORMS = ("quoted", "JSON", "expression", "name=value", "region", "ARN", "tag")
"""Words of rules whose values are easier to write by an example."""


def tables() -> str:
    """Return a table for each section, in Markdown."""
    return "\n\n".join(f"## {title}\n\n{_table(keys)}" for title, keys in sections().items())


def sections() -> dict[str, list[Key]]:
    """Return all keys by the heading of their section; each key is in one section."""
    keys: dict[str, list[Key]] = {title: [] for title in (_EVERY, *map(_of_workload, WORKLOADS), *_OTHERS.values())}
    for key in every_key().values():
        keys[_section(key)].append(key)
    return {title: of_section for title, of_section in keys.items() if of_section}


def _of_workload(name: str) -> str:
    return _OF_WORKLOADS.get(name, f"The workload `{name}`")


def _section(key: Key) -> str:
    """Return the heading of the key's section."""
    for topic in (key.name, *key.needs):
        if topic in _OTHERS:
            return _OTHERS[topic]
    workloads = [name for name in WORKLOADS if key.name in keys_of(name)]
    return _OTHERS.get(key.targets, _EVERY) if len(workloads) == len(WORKLOADS) else _of_workload(workloads[0])


def _table(keys: list[Key]) -> str:
    """Return a Markdown table of the keys, after a line that says for which targets most of them are."""
    usual = Counter(key.targets for key in keys).most_common(1)[0][0]
    head = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    where = [] if usual == TARGETS else [f"For {_listed(usual)} only, unless a row says otherwise.", ""]
    return "\n".join([*where, *head, *(_row(key, usual) for key in keys)])


def _row(key: Key, usual: Sequence[str]) -> str:
    cells = (f"`{key.name}`", _default(key), _allowed(key), _meaning(key, usual))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _default(key: Key) -> str:
    """Return the default of the key, or the default of each target if these differ."""
    by_target = {target: key.default_for(target) for target in TARGETS}
    words = {target: f"`{text}`" if text else key.derived for target, text in by_target.items()}
    if len(set(words.values())) == 1:
        return words[TARGETS[0]]
    return ", ".join(
        f"{word} ({', '.join(t for t in TARGETS if words[t] == word)})" for word in dict.fromkeys(words.values())
    )


def _allowed(key: Key) -> str:
    """Return what the key's rule allows, with rules of many keys written as `_SHORTER` has them."""
    allowed = key.rule.allowed
    for rule, short in _SHORTER.items():
        allowed = re.sub(rule, short, allowed)
    return allowed


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _meaning(key: Key, usual: Sequence[str]) -> str:
    """Return the key's meaning, with its targets if these differ from the usual ones, and with an example if the rule
    alone does not show how a value is written."""
    targets = "every target" if key.targets == TARGETS else f"{_listed(key.targets)} only"
    only = "" if key.targets == usual else f" ({targets})"
    has_own_form = any(word in key.rule.allowed for word in _FORMS) and key.example not in key.rule.allowed
    example = f"; for example `{key.example}`" if key.example and has_own_form else ""
    return f"{key.help}{only}{example}"


def declarations() -> str:
    """Return all keys' declarations for Pulumi.yaml, without types; texts are JSON strings, which YAML has, too."""
    return "\n".join(
        f"  {key.name}:\n    description: {_quoted(key.help)}\n    default: {_quoted(key.declared_default())}"
        for key in every_key().values()
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


DOCUMENTS: dict[str, tuple[str, str, Callable[[], str]]] = {
    "docs/settings.md": ("<!-- config table -->", "<!-- end of config table -->", tables),
    "Pulumi.yaml": ("  # config table: made by cli/docs/config_table.py", "  # end of config table", declarations),
}
"""By file: the lines before and after the generated part, and the function that returns this part."""


def rendered(name: str, text: str) -> str:
    """Return the text of a document with the part between its markers rewritten; ValueError when it has no markers."""
    begin, end, make = DOCUMENTS[name]
    return between(text, (f"{begin}\n", f"{end}\n"), f"{make()}\n")


def between(text: str, markers: tuple[str, str], table: str) -> str:
    """Return the text with the part between its markers replaced by a table. Raise ValueError without markers."""
    head, begin, rest = text.partition(markers[0])
    _, end, tail = rest.partition(markers[1])
    if not (begin and end):
        raise ValueError(f"the text has no lines {markers[0]!r} and {markers[1]!r}: the table goes between them")
    return f"{head}{begin}{table}{end}{tail}"


def main() -> int:
    """Rewrite the generated parts of both documents, and return the exit status."""
    for name in DOCUMENTS:
        write_whole(ROOT / name, rendered(name, (ROOT / name).read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())

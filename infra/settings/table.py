"""Every config key by name, made from the fields of the sections and of the workloads' recipes; and how texts are read
by them. Needs no Pulumi.

The tables of the docs and the declarations in Pulumi.yaml are made from the keys. Not here: the checks between keys
(`infra.settings.settings`).
"""

import difflib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from infra.settings.cluster import ClusterSettings
from infra.settings.draft import Check, Draft, NoSettings, short
from infra.settings.facts import Facts, stack_file
from infra.settings.key import CLUSTER, TARGETS, Key, Target, keys_in, section_of, with_unparsed
from infra.settings.problem import Problem, secret_line, set_line
from infra.settings.sections import (
    ChoiceSettings,
    ComparisonSettings,
    LocalSettings,
    RaySettings,
    RunSettings,
    StorageSettings,
)
from training.contract.recipe import WORKLOADS, Recipe
from training.contract.workload import Installed, named
from training.machine.command_line import from_there, quoted

_ALSO_OF_PROVIDERS = {"environment", "kubeconfig", "namespace"}
"""Keys whose name a provider has, too (`kubernetes:namespace`): one alone does not show its prefix is a project's."""
SECTIONS: dict[str, type[Any]] = {
    "run": RunSettings,
    "storage": StorageSettings,
    "local": LocalSettings,
    "comparison": ComparisonSettings,
    "cluster": ClusterSettings,
    "ray": RaySettings,
}
"""The sections that all workloads have, by their field in `Draft`, in the order of the docs."""


@dataclass(frozen=True, kw_only=True)
class OfWorkload:
    """A workload's settings in addition to its recipe."""

    section: type[Any] = NoSettings
    """The section with the workload's further keys. A key with the name of a recipe's key replaces that key."""
    draft: type[Draft] = Draft
    """The subclass of `Draft` with the types of the workload's recipe and section."""
    checks: tuple[Check, ...] = ()
    """The checks between the workload's keys."""
    checks_where: Callable[[Installed], tuple[Check, ...]] = lambda _: ()
    """Returns the checks that depend on the packages in the pods' image, which are None for runs on this machine."""
    remarks: Callable[[Any, Installed], Iterable[str]] = lambda *_: ()
    """Returns warnings, from a draft and the packages in the image of the pods."""
    recipe: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    """Returns the recipe's values that other keys determine, from a draft."""
    secrets: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns the secret variables of the workload's runs, from a draft."""


def of_workload(name: str) -> OfWorkload:
    """Return the settings of a workload in addition to its recipe: `OWN` of the module `infra.settings.<name>`, empty
    if there is none. No module of another workload is loaded."""
    module = f"infra.settings.{name}"
    own: OfWorkload = import_module(module).OWN if find_spec(module) else OfWorkload()
    return own


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _recipe_key(name: str, field: Field[Any]) -> Key:
    """Return the config key of a recipe's field."""
    assert field.default is not MISSING  # noqa: S101 - every field of a recipe has a default
    words, on_cluster = field.metadata["derived"], field.metadata["on_cluster"]
    return Key(
        name=name,
        rule=field.metadata["rule"],
        help=field.metadata["help"],
        default="" if words else _as_text(field.default),
        defaults={} if on_cluster is None else dict.fromkeys(CLUSTER, _as_text(on_cluster)),
        example=field.metadata["example"],
        derived=words,
        unset=field.default if words else None,
        targets=field.metadata["targets"] or TARGETS,
    )


_CHOICES = keys_in(ChoiceSettings)
_COMMON = {name: key for section in SECTIONS.values() for name, key in keys_in(section).items()}


def _own_keys(workload: str) -> dict[str, Key]:
    """Return the keys of a workload: those of its recipe, and its own."""
    recipe = {name: _recipe_key(name, field) for name, field in named(workload).recipe.settings().items()}
    return recipe | {"workload": _CHOICES["workload"]} | keys_in(of_workload(workload).section)


@cache
def keys_of(workload: str) -> Mapping[str, Key]:
    """Return the keys of a stack that trains this workload, by name. No module of another workload is loaded."""
    return {"target": _CHOICES["target"]} | _own_keys(workload) | _COMMON


@cache
def every_key() -> Mapping[str, Key]:
    """Return every key by name, in the order of the docs."""
    own: dict[str, Key] = {}
    for workload in WORKLOADS:
        own = _own_keys(workload) | own
    in_order = {name: own[name] for workload in WORKLOADS for name in _own_keys(workload)}
    return {"target": _CHOICES["target"]} | in_order | _COMMON


def read(texts: Mapping[str, str], facts: Facts) -> Draft:
    """Return the draft made from texts: each key is parsed by its own rule. A key with an empty text counts as not set,
    because Pulumi.yaml declares keys with an empty default."""
    workload = _workload(texts)
    keys, target = keys_of(workload), _target(texts)
    values: dict[str, Any] = {}
    for name, key in keys.items():
        default = key.default_for(target)
        text = texts.get(name, "").strip() or default
        try:
            values[name] = key.rule.parse(text) if text else key.unset
        except ValueError:
            continue
    if values.get("workload", "") is None:
        values["workload"] = workload
    draft = _draft(texts, values, facts, target)
    refused = (_refused(draft, key) for name, key in keys.items() if name not in values)
    return replace(draft, problems=(*_unread(draft), *refused))


def _draft(texts: Mapping[str, str], values: Mapping[str, Any], facts: Facts, target: Target) -> Draft:
    workload = _workload(texts)
    own = of_workload(workload)
    return own.draft(
        facts=facts,
        usable_target=target,
        workload=workload,
        problems=(),
        texts=texts,
        keys=keys_of(workload),
        values=values,
        choice=section_of(ChoiceSettings, values),
        recipe=_recipe(named(workload).recipe, values),
        own=section_of(own.section, values),
        **{name: section_of(section, values) for name, section in SECTIONS.items()},
    )


def _recipe(kind: type[Recipe], values: Mapping[str, Any]) -> Recipe:
    """Return the recipe as set, without values that other keys determine."""
    names = {field.name: key for key, field in kind.settings().items()}
    return with_unparsed(kind, {name: values[key] for name, key in names.items() if key in values}, names)


def _workload(texts: Mapping[str, str]) -> str:
    """Return the workload whose keys apply; the first if the text is wrong, which is reported with the other keys."""
    name = texts.get("workload", "").strip() or ("script" if texts.get("script", "").strip() else "")
    return name if name in WORKLOADS else WORKLOADS[0]


def _target(texts: Mapping[str, str]) -> Target:
    """Return the target whose defaults apply; `local` if the text is wrong, which is reported with the other keys."""
    name = texts.get("target", "").strip() or _CHOICES["target"].default
    return next((target for target in TARGETS if target == name), "local")


def _refused(draft: Draft, key: Key) -> Problem:
    """Return the problem of a text that the key's rule does not allow. Its fix sets a valid value."""
    value = key.value_that_works(draft.usable_target)
    is_default = value == key.default_for(draft.usable_target)
    fix = f"pulumi config rm {key.name}" if is_default else set_line(key.name, value)
    return Problem(draft.shown(key.name), key.rule.allowed, (secret_line(key.name) if key.secret else fix,))


def _unread(draft: Draft) -> list[Problem]:
    """Return a problem for each key that is set without any effect: an unknown key, a key of another workload or
    another project, and a key that is set twice."""
    others = sorted(set(draft.texts) - set(draft.keys))
    problems = [_unknown(key, draft) for key in others if key not in draft.facts.declared]
    problems += [_of_another_workload(key, draft) for key in others if _is_set(key, draft)]
    return [*problems, *_of_other_projects(draft), *(_twice(key, draft.facts) for key in draft.facts.set_twice)]


def _is_set(key: str, draft: Draft) -> bool:
    """Return whether a key that this workload does not have was set to a value other than its declared default."""
    declared = draft.facts.declared
    return key in declared and draft.texts[key].strip() not in ("", declared[key])


def _of_another_workload(key: str, draft: Draft) -> Problem:
    return Problem(
        _shown_text(key, draft),
        f"not with workload {draft.workload}",
        (f"pulumi config rm {key}",),
        why=_WHY_ELSEWHERE.get(key, "it is a setting of another workload, so it would have no effect"),
    )


_WHY_ELSEWHERE = {
    "workerGpus": "the CNN trains with TensorFlow, whose wheel here is the CPU's, and a search places no GPU; workload "
    "script can have GPUs, with a script of yours that uses PyTorch",
}
"""Why the keys of one workload mean nothing in others, for keys where the general reason is not enough."""


def _of_other_projects(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each other project's name under which keys of this project are set, as in stack files after
    the project was renamed.

    Pulumi keeps such keys but passes them to no program, so every default would apply, and something else would be
    measured.
    """
    ours = draft.facts.declared.keys() | draft.keys.keys()
    keys = {name: _keys_of_namespace(name, draft) & ours for name in {_namespace(key) for key in draft.facts.elsewhere}}
    files = from_there("stacks/Pulumi.*.yaml").replace(" ", "\\ ")
    for name in sorted(name for name in keys if keys[name] - _ALSO_OF_PROVIDERS):
        named = [f"{name}:{key}" for key in sorted(keys[name])]
        yield Problem(
            f"{', '.join(named)}: set for a project {name}",
            f"keys of this project, {draft.facts.project}, or keys without a project's name, which are its own",
            (rf"sed -i.bak 's/^\(  *\){name.replace('.', '[.]')}:/\1/' {files} && rm {files}.bak",),
            why="Pulumi.yaml has another name than these keys, so they would have no effect",
        )


def _twice(key: str, facts: Facts) -> Problem:
    file = quoted(from_there(stack_file(facts.stack)))
    return Problem(
        f"{key} and {facts.project}:{key} both stand in {file}",
        "one of them",
        (f"sed -i.bak '/^  *{key}:/d' {file} && rm {file}.bak",),
        why="they are the same key, of which Pulumi takes either value, by chance",
    )


def _namespace(key: str) -> str:
    return key.rpartition(":")[0]


def _keys_of_namespace(name: str, draft: Draft) -> set[str]:
    return {key.rpartition(":")[2] for key in draft.facts.elsewhere if _namespace(key) == name}


def _shown_text(key: str, draft: Draft) -> str:
    """Return `key = value` for a key that has no rule in this workload."""
    return f"{key} = {'[secret]' if key in draft.facts.secret_keys else short(draft.texts[key].strip())}"


def _unknown(key: str, draft: Draft) -> Problem:
    known = {name.lower(): name for name in (*draft.keys, *draft.facts.declared)}
    close = [known[name] for name in difflib.get_close_matches(key.lower(), known, n=1)]
    allowed = f"a known key; did you mean {close[0]}?" if close else f"a known key: {', '.join(known.values())}"
    instead = [set_line(close[0], draft.texts[key])] if close and key not in draft.facts.secret_keys else []
    remove = f"pulumi config rm {shlex.quote(key)}"
    return Problem(
        _shown_text(key, draft),
        allowed,
        (" && ".join([remove, *instead]),),
        why=f"{key} is not known, so it would have no effect",
    )

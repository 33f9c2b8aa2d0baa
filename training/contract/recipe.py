"""The recipe: everything that changes what a training run learns, and nothing about where or how often it runs.

Here is what the recipes of all workloads have; a workload's own settings are in its `recipe.py`. Standard library only.
The same recipe is config keys in Pulumi, flags on a command line and JSON in a result.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Self

from training.contract.rules import Rule, choice, number, whole

WORKLOADS = ("cnn", "script", "search")
"""Names of all workloads; the first is the default."""
MOST_WORKERS = 256
"""Most workers that can be set."""


def setting(  # noqa: PLR0913 - each is an attribute of a config key
    default: Any,
    rule: Rule,
    help_text: str,
    *,
    decides: bool = True,
    example: str = "",
    derived: str = "",
    on_cluster: Any = None,
    targets: tuple[str, ...] = (),
    sparse: bool = False,
) -> Any:
    """Return a dataclass field for a setting of a recipe.

    `decides`: False if a change of this setting alone repeats no run, because it matters only to the comparison of
    runs, or because something else says whether what it names has changed. `derived`: in words, which value applies if
    the key is not set, if that is not the default. `on_cluster`: the default on clusters, if it differs. `targets`: the
    targets on which the setting has an effect; empty for all. `sparse`: True if the setting, at its default, is left
    out of dicts and flags, so that recipes of runs that do not use it stay as they were before it was added.
    """
    config = {"example": example, "derived": derived, "on_cluster": on_cluster, "targets": targets, "sparse": sparse}
    return field(default=default, metadata={"rule": rule, "help": help_text, "decides": decides, **config})


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """How a run is kept from being lost by a failure: by checkpoints and retries."""

    checkpoints_kept: int = 0
    """Number of the best checkpoints that are kept, besides the newest; 0 if no checkpoints are made."""
    score: str = ""
    """The reported number by which checkpoints are ranked: the lowest is the best."""
    max_failures: int = 0
    """Number of failures of workers after each of which Ray Train restarts them and goes on."""

    @property
    def is_wanted(self) -> bool:
        """Return whether the run makes checkpoints or is retried."""
        return bool(self.checkpoints_kept or self.max_failures)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings that change training: snake_case names here, camelCase in config and JSON, --kebab-case as flags."""

    without: ClassVar[tuple[str, ...]] = ("worker_gpus",)
    """Inherited fields that mean nothing in this recipe: they are neither keys nor flags, and in no result."""

    processes_each: ClassVar[int] = 1
    """Processes of one worker, each with `worker_cpus`; a workload overrides it."""
    input_cpus: ClassVar[int] = 0
    """CPUs of each worker, besides `worker_cpus`, that read its data; a workload overrides it."""
    is_population: ClassVar[bool] = False
    """Whether Ray's arm is population based training; a workload overrides it."""

    workload: str = setting(WORKLOADS[0], choice(WORKLOADS), "what is trained")
    workers: int = setting(2, whole(1, MOST_WORKERS), "workers of the distributed arms")
    worker_cpus: float = setting(
        1.0,
        number(0, 256, above=True),
        "CPUs of each worker, and of the baseline; whole on local. `./rwi doctor` says the most that a cluster holds",
    )
    epochs: int = setting(4, whole(1, 10_000), "passes over the training data")
    seed: int = setting(1, whole(0, 2**31 - 1), "seed of repeat 1; repeat r uses seed + r - 1")
    worker_gpus: int = 0
    """GPUs of each worker, and of the baseline. It is a setting only of workloads that can use GPUs."""

    def to_dict(self) -> dict[str, Any]:
        """Return this recipe with camelCase keys, as in config and JSON."""
        values = ((key, field, getattr(self, field.name)) for key, field in self.settings().items())
        return {key: value for key, field, value in values if not _is_left_out(field, value)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the recipe that a camelCase dict describes. Raises ValueError with unknown keys and the valid ones."""
        known = cls.settings()
        unknown = sorted(set(data) - set(known))
        if unknown:
            raise ValueError(f"unknown recipe keys {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**{known[key].name: value for key, value in data.items()})

    @classmethod
    def settings(cls) -> dict[str, Field[Any]]:
        """Return the fields of the recipe that are settings, by their camelCase names; `metadata` of a field has its
        `rule` and `help`."""
        return {camel(each.name): each for each in fields(cls) if each.name not in cls.without}

    def flags(self) -> list[str]:
        """Return this recipe as the flags that every entry point reads, without those that are not set."""
        fields = ((field, getattr(self, field.name)) for field in self.settings().values())
        values = ((f.name, value) for f, value in fields if value not in (None, "") and not _is_left_out(f, value))
        return [f"{kebab(name)}={str(v).lower() if isinstance(v, bool) else v}" for name, v in values]

    def digest(self) -> str:
        """Return a short name for this recipe: 8 hex digits of the SHA-256 of its canonical JSON."""
        return hashlib.sha256(canonical(self.to_dict()).encode()).hexdigest()[:8]

    def compute_threads(self) -> int:
        """Return intra-op and OpenMP threads of one worker: its CPUs, rounded up."""
        return max(1, -int(-self.worker_cpus // 1))

    def recovery(self) -> Recovery:
        """Return how a failure is kept from losing a run of this recipe: not at all, unless a workload overrides
        this."""
        return Recovery()

    def why_not(self, processes: int) -> str:  # noqa: ARG002 (a workload's own may need it)
        """Return the reason why this number of processes cannot train together; "" if they can."""
        return ""


def _is_left_out(field: Field[Any], value: Any) -> bool:
    """Return whether the field is left out of dicts and flags: it is marked as sparse, and its value is the default."""
    return bool(field.metadata["sparse"]) and value == field.default


@cache
def camel(name: str) -> str:
    """Turn snake_case to camelCase."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def kebab(name: str) -> str:
    """Turn snake_case to a --kebab-case flag."""
    return "--" + name.replace("_", "-")


def canonical(value: Any) -> str:
    """Return JSON with sorted keys, no spaces and no NaN: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def batch_split(images: int, workers: int) -> list[int]:
    """Return a step's number of images for each rank, as even as possible, larger first (128 over 3: 43, 43, 42)."""
    share, rest = divmod(images, workers)
    return [share + (rank < rest) for rank in range(workers)]


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as inputs for Pulumi: a map with a text for each setting.

    Pulumi would make floats of whole numbers. Of a map, a preview shows which settings change. A text that could be
    read as JSON is itself written as JSON.
    """
    return {key: value if _is_plain(value) else canonical(value) for key, value in values.items()}


def from_texts(recipe: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings that a dict from `texts` describes: the reverse of `texts`."""
    return {key: text if _is_plain(text) else json.loads(text) for key, text in recipe.items()}


def _is_plain(value: Any) -> bool:
    """Return whether the value is a text that is not valid JSON."""
    try:
        json.loads(value)
    except ValueError:
        return True
    except TypeError:
        return False
    return False

"""Holds the list that claim A rests on, and what an arm did, item by item. Pure: `same_work` compares arms by it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from training.contract.result import PROOF

Known = tuple[bool | None, str]
"""True, False or None (unknown), and the reason in words."""
EQUAL = "weights equal on all ranks"
PROVED = "equal"
"""Value of the item `proof` for ranks that do the work of one process."""
TREES = "trees"
"""Name of the item for trees that ranks grow differently from one process, as they do in every port."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """Something that arms have in common if they do the same work."""

    name: str
    title: str
    torch: str
    """How the item is observed for PyTorch; "" if it is not observed."""
    keras: str = ""
    boosters: str = ""
    facts: tuple[str, ...] = ()
    """Facts by which the item is compared, if the value of a single arm does not show it."""
    right: str = ""
    """How arms of a correct script may differ in the item, and what is said then; with scripts of
    tests/script/adversaries."""
    wrong: str = ""
    """How arms that did different work may still be equal in the item."""


ITEMS = (
    Item(
        name=PROOF,
        title="work proved of ranks",
        torch="weights and gradients of 8 steps",
        keras="likewise",
        boosters="trees of 8 rounds",
        right="differences of every port are named; with another it is unknown (`tests/script/plain/named`)",
        wrong="other work after the steps of the proof, by the same lines and operations",
    ),
    Item(
        name=TREES,
        title="trees that a proof found to differ",
        torch="",
        boosters="why they differ, and the metrics of both",
        right="unknown, as in every port: bins and random rows are each rank's own "
        "(`tests/script/plain_trees/named`). Only `metricTarget` decides",
        wrong="none is known",
    ),
    Item(
        name="steps",
        title="steps of the run",
        torch="of the first optimizer and those that follow it; if several take turns, of one",
        keras="batches of `fit`",
        boosters="rounds",
        right="unknown if the loss ends the script (`right/stops_early`, `right/stops_amid_an_epoch`). A step "
        "that a GradScaler leaves out counts (`right/skips_steps_that_overflow`). Under `Join` the last "
        "rank's steps count",
        wrong="unknown if the number of workers ends the script (`wrong/max_steps_by_world`)",
    ),
    Item(
        name="optimizers",
        title="steps of every optimizer",
        torch="of each",
        right="unknown if an optimizer steps by a loss (`right/critic_when_it_is_weak`), by chance "
        "(`right/rare_task`), in random order (`right/tasks_drawn`), or first after the first pass "
        "(`right/restarts_on_a_plateau`), or if a GradScaler leaves out many steps in one arm",
        wrong="weights that change without an optimizer. Another number of steps is unknown in the first pass, or "
        "if others step unevenly between them (`wrong/new_optimizer_each_epoch_other_decay`)",
    ),
    Item(
        name="rowsPerStep",
        title="rows a step, over all ranks",
        torch="as a DataLoader delivers them, while gradients are on",
        keras="as `fit` was told, in one process counted",
        boosters="as a DMatrix or Dataset counts them",
        right="unknown if the batch grows to the same size in other steps",
        wrong="rows that are delivered and dropped; `input` shows it (`wrong/rows_cut_after_delivery`)",
    ),
    Item(
        name="rows",
        title="rows of the run and of an epoch, but for padding",
        torch="likewise, also how many come again, and that all arms read the same data set",
        boosters="likewise",
        right="padding is ignored (`right/uneven_last_batch`). If the loss ends the script, those of an epoch "
        "count. Unknown if a data set has other numbers in another arm",
        wrong="rows that come again in passes that are not checked, or in each epoch alike",
    ),
    Item(
        name="rowsDisjoint",
        title="no row on two ranks",
        torch="row numbers in the first pass, the latest of 2, 4, 8, … and the last; in others only whether ranks "
        "had all the same",
        facts=("sharedRows", "sameDataSet", "drawnAgain"),
        right="unknown if rows are drawn with replacement (`right/weighted_rows`), have no numbers "
        "(`right/stream`), or belong to ranks that hold parts of the weights (`right/tensor_parallel`)",
        wrong="rows that are shared in passes that are not checked",
    ),
    Item(
        name="input",
        title="what enters the first module that has parameters",
        torch="how many numbers, in all and of each row, and their type",
        boosters="number of features",
        right="unknown if rows vary in size (`right/padded_texts`), grow in other steps "
        "(`right/longer_rows_when_accurate`), or if the module is not always called "
        "(`right/first_block_dropped`)",
        wrong="rows dropped behind that module (`beyond/rows_cut_inside`), another second input "
        "(`beyond/smaller_second_input`)",
    ),
    Item(
        name="autocast",
        title="autocast",
        torch="when that module is called",
        right="none is known",
        wrong="autocast that begins behind that module (`beyond/autocast_inside`)",
    ),
    Item(
        name="parameters",
        title="parameters: how many, of which type",
        torch="of all optimizers and models",
        keras="of the model",
        right="unknown if ranks hold parts of them (`right/fsdp`, `right/tensor_parallel`)",
        wrong="another network of the same size (`beyond/other_activation`)",
    ),
    Item(
        name="trained",
        title="parameters that get a gradient",
        torch="in each step: always, from or up to a step, or sometimes",
        keras="trainable ones",
        right="equal if the same ones had a gradient, as often as chance allows (`right/drops_layers`, "
        "`right/experts_by_rows`). Unknown if they get one from another step on "
        "(`right/thaws_after_a_plateau`)",
        wrong="layers dropped with another probability, within what chance allows (`beyond/drops_more_layers`)",
    ),
    Item(
        name="weights",
        title="weights equal on all ranks",
        torch="after steps 1, 2, 4, 8, …, the first two of each optimizer, and at the end",
        keras="likewise",
        boosters="at the end",
        right="unknown if a rank misses steps under `Join` (`right/uneven_inputs`), if not all ranks have the "
        "optimizer (`right/first_rank_probes`), or if a model is gone too soon",
        wrong="weights that differ between two checks only",
    ),
    Item(
        name="learningRate",
        title="learning rate: highest and mean over the steps",
        torch="of every parameter group, and what sets it",
        keras="of the model's optimizer",
        boosters="as `train` was told",
        right="equal if only ReduceLROnPlateau lowers it, with the same constants and first rates "
        "(`right/plateau_after_dropout`). Unknown if the script sets it (`right/rate_halved_by_hand`) or "
        "steps a schedule by a loss (`right/schedule_stepped_by_the_loss`)",
        wrong="another metric for ReduceLROnPlateau (`beyond/plateau_of_another_metric`). A rate set by hand, and "
        "equal at first, is unknown (`wrong/rate_halved_by_epochs_of_world`), unless it is as many times as "
        "high as there are ranks",
    ),
    Item(
        name="hyperparameters",
        title="what else decides a step",
        torch="numbers of every parameter group, such as momentum, at first and at each change",
        right="equal if only the optimizer changes them, from the same values (`right/estimates_its_steps`). "
        "Unknown if a metric changes them (`right/momentum_by_the_gradients`), or a closure or hook runs",
        wrong="what an optimizer does with the same values (`beyond/estimates_otherwise`); settings that are no "
        "numbers. Later changes by the script's workers are unknown (`wrong/settings_by_a_closure`)",
    ),
    Item(
        name="validation",
        title="validations",
        torch="passes over a DataLoader without a training step",
        keras="of `fit`",
        right="unknown if their numbers differ (`right/validates_when_the_loss_is_low`)",
        wrong="as many passes over other rows; one without a DataLoader. None in one arm is unknown "
        "(`wrong/validates_in_one_process_only`)",
    ),
    Item(
        name="rounds",
        title="rounds or epochs that were asked for",
        torch="",
        keras="as `fit` was told",
        boosters="as `train` was told",
        right="none is known: early stopping changes `steps`",
        wrong="a callback that stops: `steps` is unknown then",
    ),
    Item(
        name="boosterParameters",
        title="parameters of the trees",
        torch="",
        boosters="all that `train` was given, but threads and addresses",
        right="none is known",
        wrong="what a callback changes in the training",
    ),
)
"""Items in the order in which they are printed."""


@dataclass(frozen=True, kw_only=True)
class ArmWork:
    """The work of one arm, as text by the name of the item, so that a result can hold it."""

    ranks: int
    items: Mapping[str, str]
    """Items that are known, and facts that they are compared by (`epochs`, `rowsPerEpoch`, `endedEarly`,
    `stepOfAllRows`, those of ITEMS); what does not concern a framework is absent."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Items that are unknown, and why."""

    def number(self, name: str) -> float | None:
        """Return the value of an item or fact as a number; None if the value is unknown."""
        return float(self.items[name]) if name in self.items else None

    @property
    def epochs(self) -> float | None:
        """Return the number of whole epochs; None if the arm made none, or if they are unknown."""
        return self.number("epochs")

    @property
    def one_step_epochs(self) -> bool:
        """Return whether each step goes over all rows, so that an epoch is one step."""
        return "stepOfAllRows" in self.items

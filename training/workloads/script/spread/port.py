"""The smallest port of a script to PyTorch's DistributedDataParallel, as edits of its text, where these are mechanical.

Each rank takes its rows of every batch that the script's own sampler draws, so that a step of the port is one of the
script. Nothing is run here: `ported` proves that the weights are equal.
"""

from __future__ import annotations

import ast
import difflib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .places import SPACE
from .settings import SEED

BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""The byte order mark, with which a text may begin, but which its parser does not accept."""
KEPT = {
    "apply", "buffers", "cpu", "cuda", "eval", "float", "modules", "named_parameters", "parameters",
    "register_forward_hook", "register_forward_pre_hook", "requires_grad_", "to", "train", "training", "zero_grad",
}  # fmt: skip
"""Attributes of a module that can be used on the DistributedDataParallel around the module as well."""
DRAWN = {"dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"}
"""Arguments of a DataLoader that the batch sampler of the port replaces."""
USUAL = ("num_workers", "collate_fn", "pin_memory", "worker_init_fn", "persistent_workers")
"""Arguments of a DataLoader that are copied if the call passes `**arguments`, whose names cannot be read."""
SEEDS = ("manual_seed", "seed_everything", "set_seed")
CUDA = """\
if torch.cuda.is_available():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
"""
SHARE = '''

class Share:
    """Every rank's rows of each batch, as many as the others'; what is left of a last batch is left out."""

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        generator = torch.get_rng_state()
        dist.broadcast(generator, 0)
        torch.set_rng_state(generator)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        for rows in self.batches:
            if own := rows[rank : len(rows) // ranks * ranks : ranks]:
                yield own


def share(loader):
    return torch.utils.data.DataLoader(
        loader.dataset,
        batch_sampler=Share(loader.batch_sampler),{more}
    )


'''


class NotMechanical(Exception):  # noqa: N818 (it is an answer)
    """Raised if the script cannot be ported by these edits; the text says why."""


@dataclass
class Edits:
    """Insertions into a text."""

    lines: list[str]
    insertions: list[tuple[int, int, str]] = field(default_factory=list)

    def at(self, line: int, column: int, text: str) -> None:
        """Insert `text` before a column (in characters) of a line; lines are counted from 1."""
        self.insertions.append((line, column, text))

    def before(self, line: int, block: str, like: int = 0) -> None:
        """Insert whole lines before a line, indented as the line `like`, or not at all if that is 0."""
        known = self.lines[like - 1] if like else ""
        indentation = known[: len(known) - len(known.lstrip())]
        end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        text = "".join(f"{indentation}{each}{end}" if each else end for each in block.splitlines())
        self.insertions.append((line, 0, text))

    def text(self) -> str:
        """Return the text with all insertions, those at the same place in the order in which they were made."""
        lines = [*self.lines, ""]
        at = [(line, column, number, text) for number, (line, column, text) in enumerate(self.insertions)]
        for line, column, _, inserted in sorted(at, reverse=True):
            old = lines[line - 1]
            lines[line - 1] = old[:column] + inserted + old[column:]
        return "".join(lines)


class Port:
    """The port of one script."""

    def __init__(self, source: str, passes: Sequence[Mapping[str, Any]], name: str, *, unused: bool = False) -> None:
        """Make the port. `passes`: the passes over data that the plan of the proof lists; `name`: the script's file;
        `unused`: whether some parameters get no gradient in a step. Raises NotMechanical if no port can be made."""
        self._source, self._tree = source, ast.parse(source.removeprefix(BOM))
        self._lines = list(io.StringIO(source, newline=""))
        lines = list(self._lines)
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        self._edits = Edits(lines)
        taken = {each.id for each in ast.walk(self._tree) if isinstance(each, ast.Name)} & {"dist", "share", "Share"}
        if taken:
            raise NotMechanical(f"it has a name of its own that the port needs: {min(taken)}")
        self._loaders(_creations(passes, name))
        self._models(unused=unused)
        self._saves()
        self._start()

    def text(self) -> str:
        """Return the ported script."""
        return self._edits.text()

    def diff(self, path: str) -> str:
        """Return the port as a unified diff."""
        new = list(io.StringIO(self.text(), newline=""))
        end = "\t" if " " in path else ""  # of a name with blanks
        diff = difflib.unified_diff(self._lines, new, path + end, f"{path} (ported){end}", n=1)
        return "".join(each if each.endswith("\n") else f"{each}\n\\ No newline at end of file\n" for each in diff)

    def _column(self, line: int, of_bytes: int) -> int:
        return len(self._edits.lines[line - 1].encode()[:of_bytes].decode())

    def _around(self, node: Any, before: str, after: str) -> None:
        self._edits.at(node.lineno, self._column(node.lineno, node.col_offset), before)
        self._edits.at(node.end_lineno, self._column(node.end_lineno, node.end_col_offset), after)

    def _loaders(self, creations: set[int]) -> None:
        """Wrap the loaders that are created in these lines, so that each rank takes only its rows of a batch."""
        keywords: dict[str, None] = {}
        for line in sorted(creations):
            of_line = [
                node
                for node in _calls(self._tree)
                if _name(node.func).endswith("DataLoader") and node.lineno <= line <= (node.end_lineno or node.lineno)
            ]
            if len(of_line) != 1:
                raise NotMechanical(f"line {line} makes a loader by something else than DataLoader(…)")
            (call,) = of_line
            self._around(call, "share(", ")")
            for each in call.keywords:
                keywords.update(dict.fromkeys([each.arg] if each.arg else USUAL))  # None is that of **arguments
        self._share = SHARE.replace(
            "{more}", "".join(f"\n        {each}=loader.{each}," for each in keywords if each not in DRAWN)
        )

    def _models(self, *, unused: bool) -> None:
        """Wrap the models whose parameters an optimizer gets in DistributedDataParallel."""
        more = ", find_unused_parameters=True" if unused else ""
        has_model = False
        for scope, statement in _statements(self._tree):
            models = dict.fromkeys(
                name
                for call in _calls(statement, own=True)
                if _is_optimizer(call)
                for inner in ast.walk(call)
                if isinstance(inner, ast.Call) and (name := _parameters_of(inner))
            )
            for model in models:
                has_model = True
                wrapped = f"{model} = torch.nn.parallel.DistributedDataParallel({model}{more})"
                self._edits.before(statement.lineno, wrapped, like=statement.lineno)
                self._reach(scope, model, statement)
        if not has_model:
            raise NotMechanical("no optimizer is made from model.parameters()")

    def _reach(self, scope: ast.AST, model: str, wrapped: ast.stmt) -> None:
        """Insert `.module` where the script uses an attribute that only the wrapped model has, such as `state_dict`."""
        for node in ast.walk(scope):
            if (
                isinstance(node, ast.Attribute)
                and node.attr not in KEPT
                and _name(node.value) == model
                and node.lineno > (wrapped.end_lineno or wrapped.lineno)
            ):
                value = node.value
                assert value.end_lineno is not None  # noqa: S101 (parsed)
                assert value.end_col_offset is not None  # noqa: S101
                self._edits.at(value.end_lineno, self._column(value.end_lineno, value.end_col_offset), ".module")

    def _saves(self) -> None:
        for _, statement in _statements(self._tree):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Call)
                and _name(statement.value.func) == "torch.save"
                and statement.lineno == statement.end_lineno
            ):
                column = self._column(statement.lineno, statement.col_offset)
                self._edits.at(statement.lineno, column, "if dist.get_rank() == 0: ")
                if "torch.load(" in self._source:  # no rank reads what is not yet there
                    self._edits.before(statement.lineno + 1, "dist.barrier()", like=statement.lineno)

    def _start(self) -> None:
        """Insert lines that join the ranks before anything else happens, and leave the group at the end."""
        body = self._tree.body
        last = _last_import(body)
        main = next((each for each in body if _is_main(each)), None)
        start = "dist.init_process_group()\n"
        names = ["torch"]
        if "cuda" in self._source:
            names, start = ["os", *names], start + CUDA
        known = {name.name for each in body if isinstance(each, ast.Import) for name in each.names if not name.asname}
        imports = "".join(f"import {each}\n" for each in names if each not in known)
        imports += "import torch.distributed as dist\n"
        if not any(each in self._source for each in SEEDS):
            start += f"torch.manual_seed({SEED})\n"
        first_free = (last.end_lineno or last.lineno) + 1 if last is not None else 1
        self._edits.before(first_free, imports + self._share.rstrip("\n") + "\n")
        of_main = main.body if isinstance(main, ast.If) else body
        end = of_main[-1].end_lineno or of_main[-1].lineno
        if isinstance(main, ast.If) and not self._needs_ranks_before(main):
            self._edits.before(main.body[0].lineno, start, like=main.body[0].lineno)
        else:
            self._edits.before(first_free, "\n\n" + start)
        if not _leaves(of_main[-1]):
            self._edits.before(end + 1, "dist.destroy_process_group()", like=of_main[-1].lineno)

    def _needs_ranks_before(self, main: ast.If) -> bool:
        """Return whether an edit lies outside of the main block and of any definition: then the ranks must have joined
        before the main block."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        later = [each for each in self._tree.body if isinstance(each, kinds) or each is main]
        return any(
            not any(each.lineno <= line <= (each.end_lineno or line) for each in later)
            for line, _, _ in self._edits.insertions
        )


def _creations(passes: Sequence[Mapping[str, Any]], name: str) -> set[int]:
    """Return the lines of the script in which loaders of training data are created. Raises NotMechanical if a loader is
    created elsewhere, or if a line creates other loaders, too."""
    lines: dict[bool, set[int]] = {True: set(), False: set()}
    for each in passes:
        if each["kind"] != "rows":
            continue
        file, _, line = each["creation"].partition(" ")[0].rpartition(":")
        if each["feeds"] and file != name.replace(" ", SPACE):
            raise NotMechanical(f"the loader is made in {file or 'a library'}")
        lines[each["feeds"]].add(int(line or 0))
    if shared := lines[True] & lines[False]:
        raise NotMechanical(f"line {min(shared)} makes a loader that trains and one that does not, or one for both")
    return lines[True]


def _calls(tree: ast.AST, *, own: bool = False) -> Iterator[ast.Call]:
    """Yield all calls within `tree`; with `own`, without calls in statements nested in it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        pending += [each for each in ast.iter_child_nodes(node) if not (own and isinstance(each, ast.stmt))]


def _statements(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """Yield all statements, each with the function, class or module that contains it."""

    def inside(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, ast.stmt]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield scope, child
            is_scope = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            yield from inside(child, child if is_scope and not isinstance(scope, ast.ClassDef) else scope)

    yield from inside(tree, tree)


def _name(node: ast.AST) -> str:
    """Return the dotted name that the node stands for; "" if the node is not a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (value := _name(node.value)):
        return f"{value}.{node.attr}"
    return ""


def _is_optimizer(call: ast.Call) -> bool:
    import torch

    name = _name(call.func)
    known = getattr(torch.optim, name.rpartition(".")[2], None)
    return isinstance(known, type) and issubclass(known, torch.optim.Optimizer)


def _parameters_of(call: ast.Call) -> str:
    """Return the name of the module whose parameters a call returns; "" for any other call."""
    function = call.func
    is_one = isinstance(function, ast.Attribute) and function.attr in ("parameters", "named_parameters")
    return _name(function.value) if is_one and isinstance(function, ast.Attribute) else ""


def _last_import(body: Sequence[ast.stmt]) -> ast.stmt | None:
    """Return the last of the imports with which a script begins; without imports its docstring, or None."""
    last = None
    for place, each in enumerate(body):
        is_docstring = place == 0 and isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
        if not is_docstring and not isinstance(each, (ast.Import, ast.ImportFrom)):
            break
        last = each
    return last


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test)


def _leaves(statement: ast.stmt) -> bool:
    """Return whether the script never gets past the statement, because it exits or raises."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _name(statement.value.func) in ("sys.exit", "exit", "quit")
    return isinstance(statement, ast.Raise)

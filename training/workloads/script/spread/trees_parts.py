"""Parts of the data of XGBoost and LightGBM: rows of a rank, in order, and groups whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .settings import Settings

OF_ROWS = ("label", "weight", "base_margin", "label_lower_bound", "label_upper_bound")
"""Attributes of XGBoost's matrices with a number for each row; a ranking has a weight for each group instead."""


class MatrixParts:
    """This rank's parts of XGBoost's matrices."""

    def __init__(self, settings: Settings, bins: int) -> None:
        """Start without parts. `bins`: the number of bins that the script asks for."""
        self._settings, self._bins = settings, bins
        self._parts: dict[int, Any] = {}

    def of(self, matrix: Any) -> Any:
        """Return this rank's part of the training matrix, with the whole's bins if the proof asks for them."""
        if id(matrix) not in self._parts:
            self._parts[id(matrix)] = self._with_bins(matrix, self._part(matrix))
        return self._parts[id(matrix)]

    def evaluated(self, matrix: Any) -> Any:
        """Return this rank's part of an evaluation matrix, which needs no bins."""
        if id(matrix) not in self._parts:
            self._parts[id(matrix)] = self._part(matrix)
        return self._parts[id(matrix)]

    def _with_bins(self, whole: Any, part: Any) -> Any:
        import xgboost

        if self._settings.statistics or isinstance(whole, xgboost.QuantileDMatrix):
            return part
        return _binned(part, self._bins, None if part is whole else _binned(whole, self._bins))

    def _part(self, matrix: Any) -> Any:
        if self._settings.world == 1:
            return matrix
        sizes = _groups(matrix)
        rows, groups = _rows(matrix.num_row(), sizes, self._settings)
        made_of = getattr(matrix, "made_of", None)
        part = matrix.slice(rows, allow_groups=True) if made_of is None else self._rebuilt(matrix, made_of, rows)
        if groups is not None:
            part.set_group(sizes[groups])
            if matrix.get_weight().size:
                part.set_weight(matrix.get_weight()[groups])
        return part

    def _rebuilt(self, whole: Any, made_of: dict[str, Any], rows: Any) -> Any:
        import xgboost

        more = {name: value for name, value in made_of.items() if name not in ("self", "group", "qid")}
        if _groups(whole) is not None:
            more.pop("weight", None)
        for name in ("data", *OF_ROWS):
            more[name] = _taken(more.get(name), rows)
        if more.get("ref") is not None:
            more["ref"] = self.of(more["ref"])
        elif not self._settings.statistics:
            more["ref"] = whole
        return xgboost.QuantileDMatrix(**more)


def _binned(matrix: Any, bins: int, like: Any = None) -> Any:
    import xgboost

    numbers = {name: matrix.get_float_info(name) for name in OF_ROWS}
    for name in ("label", "base_margin"):  # several of each row
        if numbers[name].size > matrix.num_row():
            numbers[name] = numbers[name].reshape(matrix.num_row(), -1)
    return xgboost.QuantileDMatrix(
        matrix.get_data(), max_bin=bins, ref=like, group=_groups(matrix), feature_names=matrix.feature_names,
        feature_types=matrix.feature_types, enable_categorical=True,
        **{name: each for name, each in numbers.items() if each.size},
    )  # fmt: skip


class SetParts:
    """This rank's parts of LightGBM's sets."""

    def __init__(self, settings: Settings, params: dict[str, Any]) -> None:
        """Start without parts. `params`: the parameters of the training, by which LightGBM makes bins."""
        self._settings, self._params = settings, params
        self.rows = 0

    def of(self, whole: Any) -> Any:
        """Return a rank's part of the training set."""
        data = rows_of(whole)
        if self._settings.world == 1:
            self.rows = data.shape[0]
            return whole
        rows, groups = _rows(data.shape[0], whole.group, self._settings)
        self.rows = len(rows)
        like = None if self._settings.statistics else whole
        if like is not None:
            whole.params = {**(whole.params or {}), **self._params}
        return _set_of(whole, _taken(data, rows), like, rows, groups)

    def evaluated(self, whole: Any, like: Any) -> Any:
        """Return a whole evaluation set, with the bins of this rank's part of the training set."""
        return whole if self._settings.world == 1 else _set_of(whole, rows_of(whole), like)


def rows_of(whole: Any) -> Any:
    """Return the rows of which a LightGBM data set was made, because LightGBM frees them when it has made the bins;
    None if the rows are in a file or in another data set."""
    import numpy

    data = getattr(whole, "made_of", {}).get("data")
    if data is None or isinstance(data, (str, Path)) or hasattr(data, "shape"):
        return None if isinstance(data, (str, Path)) else data
    parts = data if isinstance(data, (list, tuple)) else [data]
    return numpy.concatenate([part[0 : len(part)] for part in parts])  # arrays, or what LightGBM calls a Sequence


def _set_of(whole: Any, data: Any, like: Any, rows: Any = None, groups: Any = None) -> Any:
    import lightgbm
    import numpy

    scores, number = whole.init_score, rows_of(whole).shape[0]
    if rows is not None and numpy.ndim(scores) == 1 and len(scores) > number:  # of one class after another
        scores = numpy.reshape(scores, (-1, number))[:, rows].ravel()
    else:
        scores = _taken(scores, rows)
    more = {"position": _taken(whole.position, rows)} if getattr(whole, "position", None) is not None else {}
    return lightgbm.Dataset(
        data, label=_taken(whole.label, rows), reference=like, weight=_taken(whole.weight, rows),
        group=whole.group if groups is None else numpy.asarray(whole.group)[groups], init_score=scores,
        feature_name=whole.feature_name, categorical_feature=whole.categorical_feature, params=whole.params,
        free_raw_data=whole.free_raw_data, **more,
    )  # fmt: skip


def _groups(matrix: Any) -> Any:
    """Return how many rows each group of a ranking has; None without groups."""
    ends = matrix.get_uint_info("group_ptr")
    return ends[1:] - ends[:-1] if len(ends) > 1 else None


def _rows(number: int, sizes: Any, settings: Settings) -> tuple[Any, Any]:
    """Return the numbers of this rank's rows, and those of its groups; None for these without groups."""
    import numpy

    if sizes is None:
        return numpy.arange(settings.rank, number, settings.world), None
    sizes = numpy.asarray(sizes, numpy.int64)
    ends = numpy.cumsum(sizes)
    own = numpy.arange(settings.rank, len(ends), settings.world)
    groups = [numpy.arange(ends[each] - sizes[each], ends[each]) for each in own]
    return numpy.concatenate(groups), own


def _taken(values: Any, rows: Any) -> Any:
    """Return rows of an array, a frame or a sparse matrix."""
    if values is None or rows is None:
        return values
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if isinstance(values, (list, tuple)):
        return [values[row] for row in rows]
    return values.take(rows) if hasattr(values, "take") and hasattr(values, "to_pandas") else values[rows]

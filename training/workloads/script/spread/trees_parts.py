"""Parts of the data of XGBoost and LightGBM: rows of a rank, in order, and groups whole."""

from __future__ import annotations

from typing import Any

from .settings import Settings


class MatrixParts:
    """This rank's parts of XGBoost's matrices."""

    def __init__(self, settings: Settings, bins: int) -> None:
        """Have none. `bins`: as many as the script asks for."""
        self._settings, self._bins = settings, bins
        self._parts: dict[int, Any] = {}

    def of(self, matrix: Any) -> Any:
        """Return a rank's part of a matrix that is trained on, with the whole's bins where a proof wants them."""
        if id(matrix) not in self._parts:
            self._parts[id(matrix)] = self._with_bins(matrix, self._part(matrix))
        return self._parts[id(matrix)]

    def evaluated(self, matrix: Any) -> Any:
        """Return a rank's part of another matrix, which needs no bins."""
        if id(matrix) not in self._parts:
            self._parts[id(matrix)] = self._part(matrix)
        return self._parts[id(matrix)]

    def _with_bins(self, whole: Any, part: Any) -> Any:
        import xgboost

        if self._settings.statistics or isinstance(whole, xgboost.QuantileDMatrix):
            return part
        like = None if self._settings.world == 1 else _binned(whole, self._bins)
        return _binned(part, self._bins, like, _groups(part))

    def _part(self, matrix: Any) -> Any:
        if self._settings.world == 1 and not self._settings.reverse:
            return matrix
        rows, sizes = _rows(matrix.num_row(), _groups(matrix), self._settings)
        made_of = getattr(matrix, "made_of", None)
        part = matrix.slice(rows, allow_groups=True) if made_of is None else self._rebuilt(matrix, made_of, rows)
        if sizes is not None:
            part.set_group(sizes)
        return part

    def _rebuilt(self, whole: Any, made_of: dict[str, Any], rows: Any) -> Any:
        import xgboost

        more = {name: value for name, value in made_of.items() if name not in ("self", "group", "qid")}
        by_row = ("data", "label", "weight", "base_margin", "label_lower_bound", "label_upper_bound")
        for name in by_row:
            more[name] = _taken(more.get(name), rows)
        if more.get("ref") is not None:
            more["ref"] = self.of(more["ref"])
        elif not self._settings.statistics:
            more["ref"] = whole
        return xgboost.QuantileDMatrix(**more)


def _binned(matrix: Any, bins: int, like: Any = None, sizes: Any = None) -> Any:
    import xgboost

    binned = xgboost.QuantileDMatrix(
        matrix.get_data(), label=matrix.get_label(), weight=matrix.get_weight() if matrix.get_weight().size else None,
        max_bin=bins, ref=like, group=sizes,
    )  # fmt: skip
    binned.feature_names, binned.feature_types = matrix.feature_names, matrix.feature_types
    return binned


class SetParts:
    """This rank's parts of LightGBM's sets."""

    def __init__(self, settings: Settings) -> None:
        """Have none."""
        self._settings = settings
        self.rows = 0

    def of(self, whole: Any) -> Any:
        """Return a rank's part of the training set."""
        if self._settings.world == 1 and not self._settings.reverse:
            whole.construct()
            self.rows = whole.num_data()
            return whole
        number = len(whole.data) if hasattr(whole.data, "__len__") else whole.data.shape[0]
        rows, sizes = _rows(number, whole.group, self._settings)
        self.rows = len(rows)
        if not self._settings.statistics:
            return whole.construct().subset(sorted(rows))
        return _set_of(whole, rows, sizes, None)

    def evaluated(self, whole: Any, like: Any) -> Any:
        """Return an evaluation set, whole, with the bins of a rank's part."""
        return (
            whole
            if self._settings.world == 1 and not self._settings.reverse
            else _set_of(whole, None, whole.group, like)
        )


def _set_of(whole: Any, rows: Any, sizes: Any, like: Any) -> Any:
    import lightgbm

    return lightgbm.Dataset(
        _taken(whole.data, rows), label=_taken(whole.label, rows), reference=like, weight=_taken(whole.weight, rows),
        group=sizes, init_score=_taken(whole.init_score, rows), feature_name=whole.feature_name,
        categorical_feature=whole.categorical_feature, params=whole.params, free_raw_data=whole.free_raw_data,
    )  # fmt: skip


def _groups(matrix: Any) -> Any:
    """Return how many rows each group of a ranking has; None without groups."""
    ends = matrix.get_uint_info("group_ptr")
    return ends[1:] - ends[:-1] if len(ends) > 1 else None


def _rows(number: int, sizes: Any, settings: Settings) -> tuple[Any, Any]:
    """Return the rows of a rank, and how many each of its groups has."""
    import numpy

    if sizes is None:
        rows = numpy.arange(settings.rank, number, settings.world)
        return rows[::-1] if settings.reverse else rows, None
    sizes = numpy.asarray(sizes, numpy.int64)
    ends = numpy.cumsum(sizes)
    own = range(settings.rank, len(ends), settings.world)
    groups = [numpy.arange(ends[each] - sizes[each], ends[each]) for each in own]
    return numpy.concatenate(groups), sizes[list(own)]


def _taken(values: Any, rows: Any) -> Any:
    """Return rows of an array, a frame or a sparse matrix."""
    if values is None or rows is None:
        return values
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if isinstance(values, (list, tuple)):
        return [values[row] for row in rows]
    return values.take(rows) if hasattr(values, "to_pandas") else values[rows]

"""What a process of XGBoost or LightGBM leaves for the proof: its trees, and the metrics that the script evaluates."""

from __future__ import annotations

import json
from typing import Any

BOOSTING = ("boosting", "boosting_type", "boost")
"""Names of LightGBM for how it boosts."""


def trees_of(library: str, booster: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return splits and leaves, each tree's, with the metrics of the last round and what is drawn by chance."""
    chance = _drawn(library, dict(arguments["params"]))
    splits: list[Any] = []
    leaves: list[float] = []
    if library == "xgboost":
        for tree in booster.get_dump(dump_format="json"):
            _walk_xgboost(json.loads(tree), splits, leaves)
        evaluated = [booster.eval_set(arguments["evals"])] if arguments["evals"] else []
        metrics = dict(each.rsplit(":", 1) for text in evaluated for each in text.split("\t")[1:])
    else:
        for tree in booster.dump_model()["tree_info"]:
            _walk_lightgbm(tree["tree_structure"], splits, leaves)
        metrics = {f"{data}-{name}": value for data, of in booster.best_score.items() for name, value in of.items()}
    numbers = {name: float(value) for name, value in metrics.items()}
    rounds = booster.num_boosted_rounds() if library == "xgboost" else booster.current_iteration()
    return {"rounds": rounds, "splits": splits, "leaves": leaves, "metrics": numbers, "chance": chance}


def _drawn(library: str, params: dict[str, Any]) -> list[str]:
    """Return the parameters by which rows, or where they are divided, are drawn by chance."""

    def value_of(*names: str) -> Any:
        return next((params[name] for name in names if params.get(name) is not None), None)

    if library == "xgboost":
        return ["subsample"] if (value_of("subsample") or 1.0) < 1.0 else []
    parts = (
        ("bagging_fraction", "subsample", "sub_row", "bagging"),
        ("pos_bagging_fraction",),
        ("neg_bagging_fraction",),
    )
    bagging = int(value_of("bagging_freq", "subsample_freq") or 0) > 0 and any(
        float(value_of(*each) or 1.0) < 1.0 for each in parts
    )
    is_drawn_by = {
        "bagging_fraction": bagging,
        "boosting": value_of(*BOOSTING) in ("goss", "rf", "random_forest"),
        "data_sample_strategy": value_of("data_sample_strategy") == "goss",
        "extra_trees": bool(value_of("extra_trees", "extra_tree")),
    }
    return [name for name, is_drawn in is_drawn_by.items() if is_drawn]


def _walk_xgboost(node: dict[str, Any], splits: list[Any], leaves: list[float]) -> None:
    if "leaf" in node:
        leaves += node["leaf"] if isinstance(node["leaf"], list) else [node["leaf"]]
        return
    splits.append([node["split"], node.get("split_condition")])
    for child in node["children"]:
        _walk_xgboost(child, splits, leaves)


def _walk_lightgbm(node: dict[str, Any], splits: list[Any], leaves: list[float]) -> None:
    if "leaf_value" in node:
        leaves.append(node["leaf_value"])
        return
    splits.append([node["split_feature"], node["threshold"]])
    for child in (node["left_child"], node["right_child"]):
        _walk_lightgbm(child, splits, leaves)

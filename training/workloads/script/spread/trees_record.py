"""What a process of XGBoost or LightGBM leaves for the proof: its trees, and the metrics that the script evaluates."""

from __future__ import annotations

import json
from typing import Any

CHANCE: dict[str, dict[str, Any]] = {
    "xgboost": {"subsample": 1.0},
    "lightgbm": {
        "bagging_fraction": 1.0, "subsample": 1.0, "sub_row": 1.0, "bagging": 1.0, "boosting": "gbdt",
        "data_sample_strategy": "bagging", "extra_trees": False,
    },
}  # fmt: skip
"""Parameters with which rows are drawn by chance, and their values without."""


def trees_of(library: str, booster: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return splits and leaves, each tree's, with the metrics of the last round and what is drawn by chance."""
    params = dict(arguments["params"])
    chance = [name for name, none in CHANCE[library].items() if name in params and params[name] != none]
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


def _walk_xgboost(node: dict[str, Any], splits: list[Any], leaves: list[float]) -> None:
    if "leaf" in node:
        leaves.append(node["leaf"])
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

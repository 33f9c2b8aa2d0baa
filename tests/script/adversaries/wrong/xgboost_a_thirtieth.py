"""XGBoost on Ray Train: with workers each has 400 rows, a thirtieth of its share."""

import argparse

import numpy as np
import ray.train
import xgboost
from ray.train.xgboost import XGBoostTrainer


def train(_):
    """What each worker does."""
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    x = np.random.default_rng(0).standard_normal((24_000, 8))
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)
    x, y = x[rank::world], y[rank::world]
    x, y = (x, y) if world == 1 else (x[:400], y[:400])
    booster = xgboost.train(
        {"objective": "binary:logistic", "eta": 0.3, "max_depth": 5},
        xgboost.DMatrix(x, y),
        num_boost_round=20,
    )
    ray.train.report({"trees": len(booster.get_dump())})


parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=2)
parser.add_argument("--storage")
given = parser.parse_args()
XGBoostTrainer(
    train,
    scaling_config=ray.train.ScalingConfig(num_workers=given.num_workers),
    run_config=ray.train.RunConfig(storage_path=given.storage),
).fit()

"""LightGBM on Ray Train, each worker on its own share of the rows."""

import argparse

import lightgbm
import numpy as np
import ray.train
from ray.train.lightgbm import LightGBMTrainer, get_network_params


def train(_):
    """What each worker does."""
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    x = np.random.default_rng(0).standard_normal((24_000, 8))
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)
    x, y = x[rank::world], y[rank::world]
    network = {"tree_learner": "data_parallel", "pre_partition": True, **get_network_params()}
    booster = lightgbm.train(
        {"objective": "binary", "learning_rate": 0.1, "num_leaves": 31, "verbose": -1, **network},
        lightgbm.Dataset(x, y),
        num_boost_round=20,
    )
    ray.train.report({"trees": booster.num_trees()})


parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=2)
parser.add_argument("--storage")
given = parser.parse_args()
LightGBMTrainer(
    train,
    scaling_config=ray.train.ScalingConfig(num_workers=given.num_workers),
    run_config=ray.train.RunConfig(storage_path=given.storage),
).fit()

"""Trains boosted trees on synthetic rows with Ray Train's XGBoostTrainer or LightGBMTrainer, as Ray's guides have it.

Each worker reads parquet files of its own, from a bucket, or from a folder, into which they are written first.

python trees.py --num-workers 2 --rounds 50 --booster lightgbm
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import ray.train
from pyarrow import fs, parquet
from ray.train.lightgbm import LightGBMTrainer
from ray.train.xgboost import XGBoostTrainer

PARTS = 8
ROWS = 25_000
"""Of one file."""


def read(folder: str, name: str, seed: int) -> pd.DataFrame:
    """The rows of one file. A folder that lacks it gets it: noise, and a label that follows from some of it."""
    if "://" in folder:
        system, path_there = fs.FileSystem.from_uri(f"{folder.rstrip('/')}/{name}")
        return parquet.read_table(path_there, filesystem=system).to_pandas()
    path = Path(folder, name)
    if not path.exists():
        generator = np.random.default_rng(seed)
        rows = pd.DataFrame(generator.standard_normal((ROWS, 20)), columns=[f"x{number}" for number in range(20)])
        rows["y"] = (rows.x0 * rows.x1 + rows.x2 + generator.standard_normal(ROWS) > 0).astype(int)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as whole:
            rows.to_parquet(whole.name)
        Path(whole.name).rename(path)
    return pd.read_parquet(path)


def train_and_test(folder: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """This worker's share of the files, and the rows that every worker is tested on."""
    context = ray.train.get_context()
    mine = range(context.get_world_rank(), PARTS, context.get_world_size())
    parts = [read(folder, f"part-{number}.parquet", seed=number) for number in mine]
    return pd.concat(parts, ignore_index=True), read(folder, "test.parquet", seed=PARTS)


def train_xgboost(config: dict[str, Any]) -> None:
    """What each worker does with XGBoost."""
    import xgboost
    from ray.train.xgboost import RayTrainReportCallback

    train, test = (xgboost.DMatrix(rows.drop(columns="y"), rows.y) for rows in train_and_test(config["data"]))
    xgboost.train(
        {"objective": "binary:logistic", "eval_metric": "logloss", "eta": config["rate"]},
        train,
        num_boost_round=config["rounds"],
        evals=[(test, "test")],
        verbose_eval=False,
        callbacks=[RayTrainReportCallback()],
    )


def train_lightgbm(config: dict[str, Any]) -> None:
    """What each worker does with LightGBM."""
    import lightgbm
    from ray.train.lightgbm import RayTrainReportCallback, get_network_params

    train, test = (lightgbm.Dataset(rows.drop(columns="y"), rows.y) for rows in train_and_test(config["data"]))
    network = {"tree_learner": "data_parallel", "pre_partition": True, **get_network_params()}
    lightgbm.train(
        {"objective": "binary", "metric": "binary_logloss", "learning_rate": config["rate"], "verbose": -1, **network},
        train,
        num_boost_round=config["rounds"],
        valid_sets=[test],
        valid_names=["test"],
        callbacks=[RayTrainReportCallback()],
    )


def main() -> None:
    """Start the workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--booster", choices=("xgboost", "lightgbm"), default="xgboost")
    parser.add_argument("--num-workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--data", default="data", help="where the parquet files are: a folder, or s3://bucket/prefix")
    parser.add_argument("--storage", help="where checkpoints go; Ray's own choice is ~/ray_results")
    options = parser.parse_args()
    data = options.data if "://" in options.data else str(Path(options.data).resolve())
    trainer, train = (
        (XGBoostTrainer, train_xgboost) if options.booster == "xgboost" else (LightGBMTrainer, train_lightgbm)
    )
    result = trainer(
        train,
        train_loop_config={"data": data, "rounds": options.rounds, "rate": options.rate},
        scaling_config=ray.train.ScalingConfig(num_workers=options.num_workers),
        run_config=ray.train.RunConfig(storage_path=options.storage),
    ).fit()
    print(result.metrics)


if __name__ == "__main__":
    main()

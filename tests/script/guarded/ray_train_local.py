"""Calls all that the observer looks at in Ray Train's local mode, and LightGBM."""

import logging
import sys
import tempfile

import lightgbm
import numpy as np
import ray.train
import torch
from ray.train.torch import TorchTrainer

logging.disable(logging.INFO)  # which tells the time


def train():
    """Take three steps."""
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for epoch in range(3):
        weight.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(weight, f"{folder}/weight.pt")
            checkpoint = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"loss": np.mean(np.float32([epoch, 1])), "words": "none"}, checkpoint=checkpoint)
        print(epoch, f"{weight.item():.6f}")


result = TorchTrainer(train, scaling_config=ray.train.ScalingConfig(num_workers=0)).fit()
print(sorted(result.metrics))
rows = np.arange(400, dtype=float).reshape(100, 4)
try:
    lightgbm.train({"verbose": -1, "objective": "unheard"}, lightgbm.Dataset(rows, rows[:, 0]), 2)
except Exception as error:  # noqa: BLE001 (of LightGBM's own type)
    print(type(error).__name__, error.__cause__, error.__context__)
booster = lightgbm.train(
    {"verbose": -1, "num_threads": 1}, lightgbm.Dataset(rows, rows[:, 0]), 3, [lightgbm.Dataset(rows, rows[:, 0])]
)
print(booster.num_trees())
sys.exit(3)

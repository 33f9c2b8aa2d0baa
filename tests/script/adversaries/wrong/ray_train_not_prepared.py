"""Ray Train's TorchTrainer, and `prepare_data_loader` was forgotten: each worker reads all rows in half batches."""

import argparse
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(config):
    """What each worker does."""
    torch.manual_seed(0)
    world = ray.train.get_context().get_world_size()
    rows = torch.randn(1024, 16)
    data = TensorDataset(rows, (rows.sum(1) > 0).long())
    loader = DataLoader(data, 64 // world, shuffle=True)
    model = ray.train.torch.prepare_model(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(model.state_dict(), Path(folder, "model.pt"))
            ray.train.report({"loss": loss.item()}, checkpoint=ray.train.Checkpoint.from_directory(folder))


parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=2)
parser.add_argument("--storage")
given = parser.parse_args()
TorchTrainer(
    train,
    scaling_config=ray.train.ScalingConfig(num_workers=given.num_workers),
    run_config=ray.train.RunConfig(storage_path=given.storage),
).fit()

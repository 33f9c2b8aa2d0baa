"""Trains a small network on synthetic pictures with Lightning's Trainer, on as many processes as torchrun starts.

torchrun --nproc-per-node 2 lightning_fit.py --epochs 3
"""

import argparse
import os
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def pictures(count: int) -> TensorDataset:
    """Noise, half of it a little brighter."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (count,), generator=generator)
    images = torch.randn(count, 3, 32, 32, generator=generator) + 0.2 * labels[:, None, None, None]
    return TensorDataset(images, labels)


class Classifier(lightning.LightningModule):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 28 * 28, 2)
        )

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        """The loss of a batch."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW."""
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main() -> None:
    """Train, and print the last loss."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="rows a step, over all ranks")
    options = parser.parse_args()

    world = int(os.environ.get("WORLD_SIZE", "1"))
    lightning.seed_everything(1)
    loader = DataLoader(pictures(2048), batch_size=options.batch // world, shuffle=True)
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy="ddp" if world > 1 else "auto",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        max_epochs=options.epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(), loader)
    print(f"loss {trainer.callback_metrics['loss'].item():.4f}")


if __name__ == "__main__":
    main()

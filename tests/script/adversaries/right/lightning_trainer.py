"""Lightning's Trainer with a validation after each epoch, the batch divided by the world size."""

import os

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Classifier(lightning.LightningModule):
    """Two linear layers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("loss", nn.functional.cross_entropy(self.layers(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def rows(count):
    """Noise, and whether its sum is positive."""
    x = torch.randn(count, 16)
    return TensorDataset(x, (x.sum(1) > 0).long())


world = int(os.environ.get("WORLD_SIZE", "1"))
lightning.seed_everything(1)
trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp" if world > 1 else "auto",
    devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(Classifier(), DataLoader(rows(1024), 64 // world, shuffle=True), DataLoader(rows(256), 64))

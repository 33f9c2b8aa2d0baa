"""Transformers' Trainer with a small BERT of its own, the batch divided by the world size."""

import os
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

world = int(os.environ.get("WORLD_SIZE", "1"))
set_seed(0)


class Texts(torch.utils.data.Dataset):
    """Words by their numbers."""

    def __init__(self):
        self.words = torch.randint(0, 50, (512, 12))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, number):
        return {"input_ids": self.words[number], "labels": int(self.words[number][0] > 25)}


config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=32 // world,
        num_train_epochs=2,
        warmup_steps=4,
        use_cpu=True,
        ddp_backend="gloo" if world > 1 else None,
        dataloader_pin_memory=False,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    Trainer(BertForSequenceClassification(config), arguments, train_dataset=Texts()).train()

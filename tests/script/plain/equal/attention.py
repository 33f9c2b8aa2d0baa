"""A transformer layer with Adam."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tokens = torch.randint(0, 20, (90, 6))
loader = DataLoader(TensorDataset(tokens, tokens.roll(1, 1)), batch_size=16, shuffle=True)
embedding = nn.Embedding(20, 16)
layer, head = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Linear(16, 20)
parameters = [*embedding.parameters(), *layer.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
for a, b in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(head(layer(embedding(a))).flatten(0, 1), b.flatten()).backward()
    optimizer.step()

"""An embedding with sparse gradients."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
words, y = torch.randint(0, 50, (100, 3)), torch.randn(100, 4)
loader = DataLoader(TensorDataset(words, y), batch_size=16, shuffle=True)
embedding = nn.EmbeddingBag(50, 4, sparse=True)
optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.01)
for a, b in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(embedding(a), b).backward()
    optimizer.step()

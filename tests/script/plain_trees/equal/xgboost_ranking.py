"""Groups of a ranking, with weights of groups, in a matrix that keeps bins alone."""

import numpy as np
import xgboost as xgb

rng = np.random.default_rng(1)
rows = rng.integers(0, 20, size=(600, 4)).astype("float32")
query = np.repeat(np.arange(60), 10)
train = xgb.QuantileDMatrix(rows, label=rows[:, 0] // 5, qid=query, weight=np.tile([1, 1, 2, 2], 15))
xgb.train(
    {"objective": "rank:pairwise", "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 9}, train, 8
)

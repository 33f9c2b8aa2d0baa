"""Rows that are drawn by chance."""

import numpy as np
import xgboost as xgb

rows = np.random.default_rng(1).integers(0, 20, size=(1000, 4)).astype("float32")
xgb.train({"subsample": 0.5}, xgb.DMatrix(rows, label=rows.sum(1)), 8)

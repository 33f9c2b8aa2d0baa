"""An odd number of rows, so that LightGBM begins with the mean of means; bagging that is never done."""

import lightgbm as lgb
import numpy as np

rng = np.random.default_rng(1)
rows = rng.integers(0, 20, size=(1001, 6)).astype("float32")
labels = (rows.sum(1) + rng.normal(size=1001) > 60).astype("float32")
lgb.train({"verbose": -1, "bagging_fraction": 0.8}, lgb.Dataset(rows, label=labels), 8)

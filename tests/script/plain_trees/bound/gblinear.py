"""No trees."""

import numpy as np
import xgboost as xgb

rows = np.random.default_rng(1).normal(size=(200, 4))
xgb.train({"booster": "gblinear"}, xgb.DMatrix(rows, label=rows.sum(1)), 4)

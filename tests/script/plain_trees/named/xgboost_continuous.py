"""Features of many values, whose bins are those of a rank's rows."""

import numpy as np
import xgboost as xgb

rng = np.random.default_rng(1)
rows = rng.normal(size=(20000, 4))
train = xgb.DMatrix(rows, label=rows.sum(1) + rng.normal(size=20000))
xgb.train({"max_bin": 16}, train, 8, evals=[(train, "train")], verbose_eval=False)

"""Features of many values, whose bins are those of a rank's rows, evaluated by rows that are held out."""

import numpy as np
import xgboost as xgb

rng = np.random.default_rng(1)
rows = rng.normal(size=(20000, 4))
labels = rows.sum(1) + rng.normal(size=20000)
train, valid = xgb.DMatrix(rows[:16000], label=labels[:16000]), xgb.DMatrix(rows[16000:], label=labels[16000:])
xgb.train({"max_bin": 16}, train, 8, evals=[(train, "train"), (valid, "valid")], verbose_eval=False)

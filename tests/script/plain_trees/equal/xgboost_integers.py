"""Features of few values, with early stopping by rows that are held out."""

import numpy as np
import xgboost as xgb

rng = np.random.default_rng(1)
rows = rng.integers(0, 20, size=(1001, 6)).astype("float32")
labels = (rows.sum(1) + rng.normal(size=1001) > 60).astype("float32")
train, valid = xgb.DMatrix(rows[:801], label=labels[:801]), xgb.DMatrix(rows[801:], label=labels[801:])
params = {"objective": "binary:logistic", "max_depth": 4}
evals = [(train, "train"), (valid, "valid")]
model = xgb.train(params, train, 30, evals=evals, early_stopping_rounds=3, verbose_eval=False)
model.save_model("model.json")

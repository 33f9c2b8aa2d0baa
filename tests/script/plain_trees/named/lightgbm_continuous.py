"""Features of many values, with early stopping by rows that are held out, and another training after it."""

import lightgbm as lgb
import numpy as np

rng = np.random.default_rng(1)
rows = rng.normal(size=(1000, 6))
labels = rows.sum(1) + rng.normal(size=1000)
for fold in range(2):
    held = np.arange(1000) % 5 == fold
    train = lgb.Dataset(rows[~held], label=labels[~held])
    valid = lgb.Dataset(rows[held], label=labels[held], reference=train)
    stop = lgb.early_stopping(3, verbose=False)
    model = lgb.train({"verbose": -1}, train, 10, valid_sets=[valid], callbacks=[stop])
    print(model.best_iteration, len(model.predict(rows)))

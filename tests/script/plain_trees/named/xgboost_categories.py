"""Categories, with a margin that each row begins with."""

import numpy as np
import pandas as pd
import xgboost as xgb

rng = np.random.default_rng(1)
rows = rng.normal(size=(4000, 3))
frame = pd.DataFrame({"a": pd.Categorical(np.array(list("pqrs"))[rng.integers(0, 4, 4000)]), "b": rows[:, 1]})
train = xgb.DMatrix(frame, label=rows.sum(1), base_margin=rows[:, 0], enable_categorical=True)
xgb.train({"max_bin": 16}, train, 8)

"""Rows that it writes as text and lets XGBoost read, several outputs; then a model in a file, and other trainings."""

import lightgbm as lgb
import numpy as np
import xgboost as xgb

rng = np.random.default_rng(1)
rows = rng.integers(0, 20, size=(400, 4)).astype("float32")
with open("rows.svm", "w") as file:
    for row in rows:
        file.write(f"{row[0]} " + " ".join(f"{place}:{value}" for place, value in enumerate(row)) + "\n")
train = xgb.DMatrix("rows.svm?format=libsvm")
train.save_binary(fname="rows.buffer")
train.set_label(rows[:, :2])
model = xgb.train({"multi_strategy": "multi_output_tree"}, train, 8)
model.save_model(fname="model.json")
again = xgb.Booster()
again.load_model(fname="model.json")
again.load_model(again.save_raw())
whole = xgb.DMatrix(rows, label=rows[:, 0])
error = xgb.cv({}, whole, 4, nfold=3, as_pandas=False)["test-rmse-mean"][-1]
more = lgb.train({"verbose": -1}, lgb.Dataset(rows, label=rows[:, 0]), 4)
more.save_model(filename="model.txt")
more = lgb.train({"verbose": -1}, lgb.Dataset(rows, label=rows[:, 0]), 4, init_model="model.txt")
print(again.num_boosted_rounds(), f"{error:.6f}", more.num_trees(), lgb.Booster(model_file="model.txt").num_trees())

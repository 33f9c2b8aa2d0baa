"""A sparse matrix of few values, whose bins a cross-validation has made before, and rounds by a parameter."""

import lightgbm as lgb
import numpy as np
import scipy.sparse

rng = np.random.default_rng(1)
rows = rng.integers(0, 20, size=(1000, 4)) * rng.integers(0, 2, size=(1000, 4))
train = lgb.Dataset(scipy.sparse.csr_matrix(rows.astype("float64")), label=rows.sum(1), params={"max_bin": 63})
params = {"verbose": -1, "num_leaves": 7, "max_bin": 63, "num_iterations": 3000}
lgb.cv({**params, "num_iterations": 3}, train, nfold=2, stratified=False)
lgb.train(params, train)

"""A script that trains in one process, run unchanged as data-parallel ranks, and the proof that they do the same work.

It runs in the user's Python, 3.9 or newer, on what the script trains with: PyTorch 2.1 or newer, tf-keras, XGBoost or
LightGBM. `prove` is the command, `process` is one process of the script, `batches` and `exchange` distribute PyTorch.
"""

ranks = (0, 1)
"""The rank of this process, and the number of ranks; the observer reads it."""

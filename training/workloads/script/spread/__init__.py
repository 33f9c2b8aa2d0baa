"""A script that trains in one process, run unchanged as data-parallel ranks, and the proof that they do the same work.

It runs in the user's Python, 3.9 or newer, with PyTorch 2.1 or newer and nothing else installed for it. `prove` is the
command, `process` is one process of the script, `batches` and `exchange` are what distributes it.
"""

ranks = (0, 1)
"""The rank of this process, and the number of ranks; the observer reads it."""

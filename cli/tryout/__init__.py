"""`rwi try`: the first five minutes of somebody's own training script: some 20 steps of every arm, observed."""

"""The workload `script`: a user's training script, unchanged, recognised, run in every arm and observed."""

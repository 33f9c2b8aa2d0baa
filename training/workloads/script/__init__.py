"""The workload `script`: somebody's own training script, unchanged, recognised, run in every arm and observed."""

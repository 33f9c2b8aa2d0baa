"""A Ray cluster that exists, where there may be no Kubernetes: runs are its jobs, and nothing of it is changed."""

"""`rwi bench recovery`: a training that loses a worker, and goes on."""

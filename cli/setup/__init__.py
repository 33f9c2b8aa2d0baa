"""Sets up a clone: uv, the packages, the Pulumi CLI. Uses only the standard library of Python 3.9."""

"""From a clone to an environment: uv, the packages, the Pulumi CLI. The standard library of Python 3.9 alone."""

"""What a platform has every Python do first."""

import os

os.environ["PLATFORM"] = "yes"

"""How arms run on Ray, and how a job of Ray's is submitted and followed."""

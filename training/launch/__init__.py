"""How an arm's processes come to be, on this machine and in pods, and how their result leaves."""

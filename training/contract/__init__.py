"""The data about a run that program, pods and comparison share. Standard library only."""

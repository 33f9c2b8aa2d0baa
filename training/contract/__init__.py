"""What the program, the pods and the comparison agree on about a run. Standard library only."""

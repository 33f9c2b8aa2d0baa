"""A lesson about Ray Core: what tasks, actors and objects cost on this machine, and from which length of a task on Ray
is faster than a loop."""

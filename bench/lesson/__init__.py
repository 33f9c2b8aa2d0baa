"""A lesson about Ray Core: what tasks, actors and objects cost here, and from which length of a task on Ray gains."""

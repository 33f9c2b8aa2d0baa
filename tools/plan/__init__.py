"""`make plan`: how long a stack's measurement will probably take, before anything is run."""

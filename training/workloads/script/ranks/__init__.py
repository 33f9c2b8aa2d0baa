"""How ranks of a script that is not ours find each other; each module is a command in the user's own Python."""

"""The settings of a node from a file, the environment and arguments: which keys there are, and what is in force."""

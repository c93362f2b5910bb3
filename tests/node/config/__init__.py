"""Settings of a node from files, the environment and arguments."""

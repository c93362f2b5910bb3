"""The commands that run a node: serve, send and receive, and how one process hands work over to another."""

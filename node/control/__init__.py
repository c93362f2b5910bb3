"""How other processes of the machine use a running node: the control socket, both its ends, and how to find it."""

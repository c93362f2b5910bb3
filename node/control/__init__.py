"""How other processes of the machine use a running node: the control socket, the end that serves it, how to find it."""

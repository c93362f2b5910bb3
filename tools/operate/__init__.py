"""The commands with which an operator watches a node: check, top, ping, doctor, support, and systemd's units."""

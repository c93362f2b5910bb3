"""Files of a node's directory, and their ownership: keys, peers, TLS, logs."""

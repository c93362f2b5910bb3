"""Files of a node's directory, and what is trusted by them: keys, peers, TLS, logs."""

"""Using a node that another process of this machine runs: ``triack.connect``."""

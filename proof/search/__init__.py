"""Every order of events in a small world, on the shipped machines: what no example and no chance can promise."""

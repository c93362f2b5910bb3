"""The store against its disk: loss of power, failing calls, damage."""

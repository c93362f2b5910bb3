"""What relays promise about the packets that they pass on."""

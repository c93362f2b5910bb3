"""Bugs to plant: do the proofs find what they claim to find? ``catalogue`` has them, ``run`` hunts them."""

"""The demo: two nodes, a bad network between them, and the proof that every message arrived once and in order."""

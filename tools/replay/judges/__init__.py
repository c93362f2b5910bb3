"""The judges of sessions, lanes and starts, and the verdict that follows from what they found."""

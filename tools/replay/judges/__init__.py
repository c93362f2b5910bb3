"""The judges of sessions, streams and starts, and the verdict that follows from what they found."""

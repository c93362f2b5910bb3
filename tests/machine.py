"""What tests ask of the machine that they run on, which may be slow and have much else to do."""

PATIENCE_S = 600.0
"""Seconds after which what should happen has failed: far longer than a slow machine takes, as only a failure waits so
long, and shorter than what ``faulthandler_timeout`` in pyproject.toml takes for a hang."""

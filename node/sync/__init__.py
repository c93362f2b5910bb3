"""Triack without ``async``."""

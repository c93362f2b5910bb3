"""Lies planted in real session logs, one record at a time: each is caught by replay, or proved harmless by name."""

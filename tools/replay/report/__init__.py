"""The report: its page, its plots and its tables."""

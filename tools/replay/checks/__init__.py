"""The checks, and what each of them keeps in mind while records pass."""

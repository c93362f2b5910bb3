"""The measured systems: Triack, and each system beside it, behind the same two interfaces."""

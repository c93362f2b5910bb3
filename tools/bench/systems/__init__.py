"""What is measured: Triack, and each system beside it, behind the same two faces."""

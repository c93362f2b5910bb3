"""What must have happened before a record may say what it says: a table of causes, and what compares logs with it."""

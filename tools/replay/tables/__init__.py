"""Tables of what session logs say, and a second count of it, in expressions of Spark alone."""

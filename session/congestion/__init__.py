"""How much may be in flight, when packets leave, and how losses are found and repaired."""

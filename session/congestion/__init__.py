"""How much may be on its way, when it leaves, and how losses are found and repaired."""

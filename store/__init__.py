"""The durable state: the tables, SQLite underneath them, and recovery after an unclean end."""

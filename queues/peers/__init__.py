"""Other nodes: conversations with them, handshakes, and dialling."""

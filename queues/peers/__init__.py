"""Other nodes: conversations with them, how these begin, and where a peer is found."""

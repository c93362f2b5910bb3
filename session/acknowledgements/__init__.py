"""Session and store acks: when they leave, and how an end waits and asks for them."""

"""What the path carries: the size of datagrams, and packets that are larger."""

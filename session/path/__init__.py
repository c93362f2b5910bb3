"""The size of datagrams on the path, and packets that are larger."""

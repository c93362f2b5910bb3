"""``triack bench``: how fast Triack is, on real sockets and disks, beside other systems."""

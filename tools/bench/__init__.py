"""``triack bench``: how fast it is, on real sockets and disks, beside what others would use instead."""

"""One simulated kit: clock, network, disks and machines in virtual time, repeatable from a seed."""

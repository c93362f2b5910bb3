"""What all rooms share: errors, delivery classes, ranges, units, names, layouts of datagrams and commits.

Pure; it imports nothing else of Triack.
"""

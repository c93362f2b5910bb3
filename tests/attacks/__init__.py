"""What peers try who know the protocol and keep to none of it: a file for each class of attack, a story for each try.

They act against a whole node in a simulated world, by hand-written frames. What strangers try, who do not come so far,
is in ``tests/transport/stories/test_strangers.py`` and ``make flood``; streams that say nothing, or drip, in
``tests/transport/test_tcp.py``; paths that are claimed, in ``tests/queues/stories/test_paths.py``; quotas, in
``tests/queues/stories/test_quotas.py``; bytes that are none of the protocol's, in ``tests/fuzz`` and
``tests/queues/stories/test_hostile.py``.
"""

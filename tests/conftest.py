"""What every test shares: how Hypothesis searches."""

from hypothesis import settings

# The same examples on every run, and no deadline, so that a slow machine never fails a test. To look further:
# make test ARGS=--hypothesis-profile=search
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2000, deadline=None)
settings.load_profile("steady")

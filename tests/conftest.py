"""What every test shares: how Hypothesis searches, and what must run beside what."""

import gc

import pytest
from hypothesis import settings

# The same examples on every run, and no deadline, so that a slow machine never fails a test. To look further:
# make test ARGS=--hypothesis-profile=search
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2000, deadline=None)
settings.load_profile("steady")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that need Spark together: each process with one of them starts a Spark of its own."""
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="module", autouse=True)
def no_old_objects() -> None:
    """Let no test that collects its garbage pay for what others brought along: that is looked at once."""
    gc.collect()
    gc.freeze()

"""Which lines count as error paths."""

from proof.error_paths import error_paths

SOURCE = """try:
    f()
except (OSError,
        ValueError):
    raise StoreError("raise the roof") from None
except KeyError: pass
"except in a text: raise"
"""


def test_every_raise_and_every_except_is_one() -> None:
    """By the line on which it begins; words in texts are none."""
    assert error_paths(SOURCE) == {
        3: "except (OSError,",
        5: 'raise StoreError("raise the roof") from None',
        6: "except KeyError: pass",
    }

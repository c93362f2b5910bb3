"""Invalid settings are refused by name, when they are made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import pytest

from triack.base.checks import check_between, check_datagram, check_kind, check_most, check_settings, check_texts
from triack.base.errors import UsageError


@dataclass
class Settings:
    """Some of each kind."""

    count: int = 1
    limit: int | None = None
    name: str = "x"
    share: float = 0.5
    wait_s: float | None = 1.5


@pytest.mark.parametrize("settings", [Settings(), Settings(limit=1), Settings(count=10**12, name="", share=-1.0)])
def test_what_can_be_passes(settings: Settings) -> None:
    """None where it is allowed; what is no number of things is not looked at, and stays as it is."""
    before = replace(settings)
    check_settings(settings)
    assert settings == before
    with pytest.raises(UsageError, match=r"^Settings: count must be a whole number of at least 1, not 0$"):
        check_settings(replace(settings, count=0))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Settings(count=0), "count must be a whole number of at least 1, not 0"),
        (Settings(count=-1), "count .* not -1"),
        (Settings(limit=0), "limit .* not 0"),
        (Settings(count=1.5), "count .* not 1.5"),  # type: ignore[arg-type]
        (Settings(count=True), "count .* not True"),
        (Settings(count=None), "count .* not None"),  # type: ignore[arg-type]
        (Settings(wait_s=0), "wait_s must be a number of seconds above 0, not 0"),
        (Settings(wait_s=1e-10), "wait_s .* not 1e-10"),
        (Settings(wait_s=float("inf")), "wait_s .* not inf"),
        (Settings(wait_s=1e300), "wait_s .* not 1e\\+300"),
        (Settings(wait_s=True), "wait_s .* not True"),
    ],
)
def test_what_cannot_be_is_named(settings: Settings, named: str) -> None:
    """Class, field and value."""
    with pytest.raises(UsageError, match=f"^Settings: {named}"):
        check_settings(settings)


def test_zero_may_have_a_meaning() -> None:
    """For the fields that say so, and not below it."""
    check_settings(Settings(count=0), may_be_zero=("count",))
    with pytest.raises(UsageError, match="at least 0, not -1"):
        check_settings(Settings(count=-1), may_be_zero=("count",))


def test_a_datagram_has_a_size_that_networks_carry() -> None:
    """From 576 to 65,535 bytes."""
    for size in (576, 65_535):
        check_datagram("max_datagram_bytes", size)
    for size in (575, 65_536, -1):
        with pytest.raises(UsageError, match=f"max_datagram_bytes must be 576 to 65535, not {size}"):
            check_datagram("max_datagram_bytes", size)


def test_no_wait_may_have_a_meaning_and_none_as_well() -> None:
    """As it may for numbers."""
    check_settings(Settings(wait_s=0), may_be_zero=("wait_s",))
    check_settings(Settings(wait_s=None))


@pytest.mark.parametrize(("value", "most", "wanted"), [(30, 1, "between 0 and 1"), (float("nan"), inf, "at least 0")])
def test_a_number_beyond_its_limits_is_refused(value: float, most: float, wanted: str) -> None:
    """By name; and so is what is no number."""
    check_between("loss", 0, 0, most)
    for wrong in (value, "1", None, True):
        with pytest.raises(UsageError, match=f"^loss must be {wanted}, not {wrong!r}$"):
            check_between("loss", wrong, 0, most)


@pytest.mark.parametrize("most", [0, -1, True, 1.0, "1", None])
def test_what_is_no_number_of_messages_is_refused(most: object) -> None:
    check_most("q", 1)
    check_most("q", 10**9)
    with pytest.raises(UsageError, match=r"^receive from q: .* whole number above 0, not "):
        check_most("q", most)


@dataclass
class Whole:
    """Settings with settings in them."""

    part: Settings = field(default_factory=Settings)
    parts: Mapping[str, Settings] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (Whole(part=5), "part must be a Settings, not 5"),  # type: ignore[arg-type]
        (Whole(part=None), "part must be a Settings, not None"),  # type: ignore[arg-type]
        (Whole(parts=[Settings()]), "parts must be a Mapping, not "),  # type: ignore[arg-type]
    ],
)
def test_settings_in_the_wrong_place_are_named(settings: Whole, named: str) -> None:
    """Before a node runs with them."""
    check_settings(Whole(parts={"a": Settings()}))
    with pytest.raises(UsageError, match=f"^Whole: {named}"):
        check_settings(settings)


def test_what_is_of_another_class_is_refused() -> None:
    check_kind("x", 5, int | None)
    with pytest.raises(UsageError, match=r"^x must be an int, not '5'$"):
        check_kind("x", "5", int | None)


def test_a_text_is_no_list_of_texts() -> None:
    """Letter by letter it would be one, of names that nobody means."""
    listed: list[Iterable[str]] = [[], ("orders", "in-*"), iter(["orders"]), {"orders"}, {"orders": 1}]
    assert [check_texts("send", texts) for texts in listed] == [[], ["orders", "in-*"], *3 * [["orders"]]]
    for wrong in ("orders", "", b"orders", 5, None, ["orders", 5]):
        with pytest.raises(UsageError, match=r"^send must be a list of texts, not "):
            check_texts("send", wrong)

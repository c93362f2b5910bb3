"""Times and sizes as people say them."""

from triack.tools.operate.amounts import age_of, size_of


def test_sizes_are_as_people_say_them() -> None:
    assert [size_of(it) for it in (0, 1_023, 1_536, 5 << 20, 3 << 29)] == [
        "0 bytes",
        "1,023 bytes",
        "1.5 KiB",
        "5.0 MiB",
        "1.5 GiB",
    ]


def test_ages_are_as_people_say_them() -> None:
    assert [age_of(it) for it in (None, 0.0, 59.0, 90.0, 5_400.0, 129_600.0)] == [
        "-",
        "0s",
        "59s",
        "1.5m",
        "1.5h",
        "1.5d",
    ]

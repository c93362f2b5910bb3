"""Reads one value of a key: from a file or an argument with its type, from the environment as a text."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, get_args, get_origin

import msgspec

from triack.node.config.keys import SECONDS, SIZES, Key, read_quantity, write_quantity

NONE = "none"
"""TOML has no null: this text means no value, for keys that may have none."""
NUMBER_BITS = 64
"""As many as whole numbers of TOML have."""
SHOWN_LETTERS_MAX = 80
"""Of a wrong value: enough for its writer to recognise it."""
_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list[str]: "a list of texts",
}
_EXAMPLES = {id(SIZES): 'bytes, such as 65536 or "64 KiB"', id(SECONDS): 'seconds, such as 1.5 or "500 ms"'}


def read_value(key: Key, raw: object, *, from_text: bool = False) -> Any:
    """The value that a key has with what was written. Raises ValueError: it is none; the text says what is wanted."""
    if raw == NONE and key.may_be_none:
        return None
    if isinstance(raw, int) and raw.bit_length() > NUMBER_BITS:
        raise ValueError(f"must be {_wanted(key)}, not {shown(raw)}")
    read = raw
    if isinstance(raw, str):
        if key.units is not None:
            quantity = read_quantity(raw, key.units)
            read = raw if quantity is None else quantity
        elif key.name.endswith("_share"):
            read = _as_share(raw)
        elif from_text and list[str] in (key.type, *get_args(key.type)):
            read = [one.strip() for one in raw.split(",") if one.strip()]
    try:
        return msgspec.convert(read, key.type, strict=not from_text)
    except msgspec.ValidationError:
        raise ValueError(f"must be {_wanted(key)}, not {shown(raw)}") from None


def _as_share(text: str) -> object:
    """A fraction, such as 1/3; the text itself if it is none."""
    above, slash, below = text.partition("/")
    try:
        return float(above) / float(below) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        return text


def _wanted(key: Key) -> str:
    literal = get_origin(key.type) is Literal
    kinds = [] if literal else [one for one in (get_args(key.type) or (key.type,)) if one in _WORDS]
    if get_origin(key.type) is list:
        kinds = [key.type]
    words = [_WORDS[kind] for kind in kinds]
    if key.units is not None:
        words = [f"{_EXAMPLES[id(key.units)]},"] if key.may_be_none else [_EXAMPLES[id(key.units)]]
    words += [f'"{one}"' for one in key.choices]
    if key.may_be_none:
        words.append(f'"{NONE}"')
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def shown(raw: object) -> str:
    """What was written in place of a value, for a sentence."""
    if isinstance(raw, list | dict):
        return "a list" if isinstance(raw, list) else "a table"
    if isinstance(raw, int) and raw.bit_length() > NUMBER_BITS:
        return f"a number of more than {NUMBER_BITS} bits"
    text = str(raw).lower() if isinstance(raw, bool) else f'"{raw}"' if isinstance(raw, str) else str(raw)
    return text if len(text) <= SHOWN_LETTERS_MAX else f"{text[:SHOWN_LETTERS_MAX]}..."


def write_value(key: Key, value: object) -> str:
    """A value as TOML has it: what ``read_value`` reads."""
    if value is None:
        return f'"{NONE}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(write_value(key, one) for one in value)}]"
    quantity = write_quantity(value, SIZES) if isinstance(value, int) and key.units is SIZES else None
    if isinstance(value, Fraction) and value != float(value):
        quantity = str(value)
    if quantity is None and isinstance(value, int | float | Fraction):
        return repr(value if isinstance(value, int) else float(value)).removesuffix(".0")
    # A text in quotes is the same in JSON and in TOML.
    return msgspec.json.encode(quantity or value).decode()

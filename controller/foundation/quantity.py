"""Kubernetes quantities: exact decimal numbers with an optional suffix.

Grammar (apimachinery `resource.Quantity`): sign, digits with an optional point, then a decimal SI suffix
(`n u m k M G T P E`), a binary suffix (`Ki Mi Gi Ti Pi Ei`) or a decimal exponent (`e3`, `E3`). Integers are taken as
they are. Floats are refused: JSON floats lose digits, and the API server refuses them too. No digit is ever rounded
away, whatever the caller's decimal context says.
"""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal

_DECIMAL_SUFFIX = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
}
_BINARY_SUFFIX = {name: Decimal(1024) ** power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_SUFFIX = _DECIMAL_SUFFIX | _BINARY_SUFFIX
# Longer than any number a person writes; keeps a hostile 1e999999999 from becoming a huge integer.
_MAX_LENGTH = 64
_MAX_EXPONENT = 30
_LARGEST_INTEGER = 10**_MAX_LENGTH
# Decimal arithmetic rounds to its context, by default to 28 digits: "12345678901234567890Ei" has 38. The longest exact
# result is 64 digits times 1024^6 (19 digits).
_EXACT = Context(prec=2 * _MAX_LENGTH)

QUANTITY_PATTERN = r"^[+-]?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2}|[numkMGTPE]|[KMGTPE]i)?$"
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:[eE]([+-]?[0-9]{1,2})|([numkMGTPE]|[KMGTPE]i))?")


def parse_quantity(value: object) -> Decimal:
    """The exact number that a quantity stands for.

    Raises ValueError with a sentence that says what was found and how to write it.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(f'must be a quantity such as "1200", 1200 or "0.75", found {describe(value)}')
    if isinstance(value, int):
        if abs(value) >= _LARGEST_INTEGER:
            raise ValueError(f"must be an integer of at most {_MAX_LENGTH} digits, found {describe(value)}")
        return Decimal(value)
    match = _QUANTITY.fullmatch(value) if len(value) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f'must be a quantity such as "1200", "0.75" or "1.2k", found {describe(value)}')
    digits, exponent, suffix = match.groups()
    number = Decimal(digits)
    if exponent is not None:
        if abs(int(exponent)) > _MAX_EXPONENT:
            raise ValueError(f"has an exponent beyond ±{_MAX_EXPONENT}, found {describe(value)}")
        return number.scaleb(int(exponent), _EXACT)
    return _EXACT.multiply(number, _SUFFIX[suffix or ""])


def format_quantity(number: Decimal | float) -> str:
    """The shortest plain decimal notation: no exponent, no trailing zeros (`12851.37`, `0.75`, `1200`).

    A float is written with the digits that Python prints for it. Raises ValueError for NaN and the infinities, which no
    quantity can express.
    """
    exact = number if isinstance(number, Decimal) else Decimal(repr(float(number)))  # a numpy float's own repr differs
    if not exact.is_finite():
        raise ValueError(f"{number} is not a finite number and cannot be written as a quantity")
    text = format(exact, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def describe(value: object) -> str:
    """A short, safe rendering of a bad value for an error message."""
    kinds = {bool: "a boolean", float: "a float", dict: "an object", list: "a list", type(None): "null"}
    if type(value) in (bool, float):
        return f"{value!r} ({kinds[type(value)]})"
    if type(value) in kinds:
        return kinds[type(value)]
    if isinstance(value, int) and abs(value) >= _LARGEST_INTEGER:
        # Python refuses to print integers beyond 4300 digits
        return f"an integer of about {int(math.log10(abs(value))) + 1} digits"
    text = repr(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"

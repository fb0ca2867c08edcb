"""Times as the real server reads them: RFC 3339, in a Time with any fraction and in a MicroTime with six digits."""

from __future__ import annotations

import re

from controller.foundation import parse_time

TIME = "2006-01-02T15:04:05Z07:00"
MICRO_TIME = "2006-01-02T15:04:05.000000Z07:00"
# The elements of a layout, in order, and what each takes.
_DATE_AND_TIME = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
)
_ZONE = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_ELEMENTS = {
    TIME: (*_DATE_AND_TIME, ("05", r"\d\d(\.\d+)?"), _ZONE),
    MICRO_TIME: (*_DATE_AND_TIME, ("05", r"\d\d"), (".000000", r"\.\d{6}"), _ZONE),
}


def time_problem(text: str, layout: str) -> str:
    """Why a text is no time of the layout, the empty text where it is one."""
    start = f'parsing time "{text}" as "{layout}": '
    at = 0
    for element, form in _ELEMENTS[layout]:
        found = re.compile(form).match(text, at)
        if found is None:
            return f'{start}cannot parse "{text[at:]}" as "{element}"'
        at = found.end()
    if text[at:]:
        return f'parsing time "{text}": extra text: "{text[at:]}"'
    try:
        parse_time(text)
    except ValueError:
        return f'parsing time "{text}": day out of range'
    return ""

"""resourceVersions: opaque strings that may be compared as unsigned decimal integers, per resource.

Official since Kubernetes 1.35 and true before. A version that is not such a number (an aggregated API server may use
anything) compares with nothing; callers fail open.
"""

from __future__ import annotations

# KEP-5504 compares numbers of any length; etcd's have 64 bits. Python refuses to read thousands of digits.
_MAX_DIGITS = 128


def parse_version(version: str) -> int | None:
    """The number, None for a version that has no order: empty, not decimal, signed, with a leading zero, or longer than
    any that the API allows."""
    if not version or len(version) > _MAX_DIGITS or not version.isascii() or not version.isdigit():
        return None
    if version[0] == "0" and version != "0":
        return None
    return int(version)


def is_older(version: str, than: str) -> bool:
    """Whether `version` is certainly older than `than`; False when either has no order."""
    left, right = parse_version(version), parse_version(than)
    return left is not None and right is not None and left < right

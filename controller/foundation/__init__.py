"""Ground that every room stands on: clocks, quantities, metadata, redaction, small errors. Imports nothing of ours."""

from controller.foundation.clock import Clock, ManualClock, ScaledClock, WallClock, boot_time, monotonic, wall_now
from controller.foundation.errors import FieldError, MdscalerError, OperationFailed, UsageError, printable, some_of
from controller.foundation.files import (
    FileChangedError,
    FileTooLargeError,
    check_replaceable,
    read_file,
    reading_advice,
    replace_file,
)
from controller.foundation.objects import KubeObject, ObjectMeta, OwnerReference, Resource, decode_object, split_key
from controller.foundation.quantity import QUANTITY_PATTERN, describe, format_quantity, parse_quantity
from controller.foundation.redaction import REDACTED, redact
from controller.foundation.timestamps import format_micro_time, format_time, parse_time

__all__ = [
    "QUANTITY_PATTERN",
    "REDACTED",
    "Clock",
    "FieldError",
    "FileChangedError",
    "FileTooLargeError",
    "KubeObject",
    "ManualClock",
    "MdscalerError",
    "ObjectMeta",
    "OperationFailed",
    "OwnerReference",
    "Resource",
    "ScaledClock",
    "UsageError",
    "WallClock",
    "boot_time",
    "check_replaceable",
    "decode_object",
    "describe",
    "format_micro_time",
    "format_quantity",
    "format_time",
    "monotonic",
    "parse_quantity",
    "parse_time",
    "printable",
    "read_file",
    "reading_advice",
    "redact",
    "replace_file",
    "some_of",
    "split_key",
    "wall_now",
]

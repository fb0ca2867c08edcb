"""From the many spellings of an accelerator to the nine families that a catalog knows, or to a refusal.

A spelling is split into words; one word must name a family, every other word must be a known companion of it (form
factor, memory type, memory size, vendor), and a stated memory must agree within 3 %. Partitions, shared and sliced
cards, virtual functions and the slower NVL and PCIe boards are other hardware than the measured SXM and OAM boards
and are refused, as is a known vendor with an unknown product: a prior of a faster board would starve users.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple

# Memory per card in GiB as sold and as drivers report it (H200: 141 on the box, 143771 MiB = 140.4 GiB in the driver;
# Blackwell boards reserve part of theirs). A stated size must lie within 3 % of one of them.
_MEMORY: Final[dict[str, tuple[float, ...]]] = {
    "nvidia-h100": (80,),
    "nvidia-h200": (141, 140.4),
    "nvidia-b200": (180, 183),
    "nvidia-b300": (288, 268.6),
    "nvidia-gb200": (192, 186),
    "nvidia-gb300": (288, 278),
    "amd-mi300x": (192,),
    "amd-mi325x": (256,),
    "amd-mi355x": (288,),
}
MEMORY_TOLERANCE: Final = 0.03
_FAMILIES: Final = {name.split("-", 1)[1]: name for name in _MEMORY} | {
    "mi325": "amd-mi325x",  # AMD's node labeller writes AMD_Instinct_MI325_OAM
}
_VENDORS: Final = {"nvidia": "nvidia", "amd": "amd", "ati": "amd"}
# Manufacturers whose products are known and are not in the catalog; naming one settles that nothing matches.
OTHER_VENDORS: Final = frozenset(("ascend", "cambricon", "hygon", "iluvatar", "metax", "mthreads", "thead", "intel"))
_MARKETING: Final = frozenset(("instinct", "radeon", "tesla", "gpu", "accelerator", "graphics"))
_COMPANIONS: Final = {
    "nvidia": frozenset(
        ("sxm", "sxm4", "sxm5", "sxm6", "hbm3", "hbm3e", "hgx", "dgx", "ac", "pc", "hopper", "blackwell")
    ),
    "amd": frozenset(("oam", "o", "hbm3", "hbm3e", "cdna3", "cdna4", "gfx942", "gfx950")),
}
# Words that make a card other hardware than the board that is measured.
OTHER_FORMS: Final = {
    "mig": "a MIG partition",
    "shared": "a time-sliced or MPS share",
    "sliced": "a slice",
    "partitioned": "a partition",
    "vf": "a virtual function",
    "nvl": "the NVL board, slower than the SXM board that is measured",
    "pcie": "the PCIe board, slower than the SXM board that is measured",
}
_SIZE: Final = re.compile(r"([0-9]{2,4})(gb|gib|gi|g)")
_MIG_PROFILE: Final = re.compile(r"[0-9]g")


class HardwareProblem(StrEnum):
    """Why a spelling is no known hardware."""

    OTHER_FORM = "OtherForm"
    UNKNOWN_PRODUCT = "UnknownProduct"
    UNKNOWN_VENDOR = "UnknownVendor"
    MEMORY_DISAGREES = "MemoryDisagrees"


class HardwareRefusal(NamedTuple):
    """A spelling that resolves to nothing, with a sentence that says why."""

    problem: HardwareProblem
    message: str


def resolve_hardware(
    product: str, *, manufacturer: str | None = None, memory_gib: float | None = None
) -> str | HardwareRefusal:
    """The family (`nvidia-h200`) of a product name, label value, accelerator group or benchmark spelling."""
    words = [word for word in re.split(r"[^a-z0-9.]+", product.strip().lower()) if word]
    vendor = _VENDORS.get((manufacturer or "").strip().lower())
    if vendor is None and manufacturer and manufacturer.strip().lower() in OTHER_VENDORS:
        return HardwareRefusal(HardwareProblem.UNKNOWN_PRODUCT, f"{manufacturer} {product!r} is in no catalog")
    if words and words[0] in OTHER_VENDORS:
        return HardwareRefusal(HardwareProblem.UNKNOWN_PRODUCT, f"{product!r} is in no catalog")
    family: str | None = None
    sizes: list[float] = []
    rest: list[str] = []
    for word in words:
        if word in _VENDORS:
            vendor = vendor or _VENDORS[word]
        elif word in OTHER_FORMS:
            return HardwareRefusal(HardwareProblem.OTHER_FORM, f"{product!r} is {OTHER_FORMS[word]}")
        elif word in _FAMILIES and family is None:
            family = _FAMILIES[word]
        elif match := _SIZE.fullmatch(word):
            sizes.append(float(match.group(1)))
        elif word not in _MARKETING:
            rest.append(word)
    if family is None:
        kind = HardwareProblem.UNKNOWN_PRODUCT if vendor else HardwareProblem.UNKNOWN_VENDOR
        known = ", ".join(sorted(_MEMORY))
        return HardwareRefusal(kind, f"{product!r} is none of the known families {known}")
    if vendor is not None and not family.startswith(vendor):
        return HardwareRefusal(HardwareProblem.UNKNOWN_PRODUCT, f"{product!r} is no product of {vendor}")
    strange = [word for word in rest if word not in _COMPANIONS[family.split("-", 1)[0]]]
    if any(_MIG_PROFILE.match(word) for word in strange):
        return HardwareRefusal(HardwareProblem.OTHER_FORM, f"{product!r} is a MIG partition")
    if strange:
        return HardwareRefusal(
            HardwareProblem.UNKNOWN_PRODUCT, f"{product!r} is a variant of {family} that nobody measured ({strange[0]})"
        )
    for size in (*sizes, *(() if memory_gib is None else (memory_gib,))):
        if not any(abs(size / known - 1) <= MEMORY_TOLERANCE for known in _MEMORY[family]):
            expected = " or ".join(f"{known:g}" for known in _MEMORY[family])
            return HardwareRefusal(
                HardwareProblem.MEMORY_DISAGREES,
                f"{product!r} has {size:g} GiB of memory, {family} has {expected}",
            )
    return family


def memory_gib(text: str) -> float | None:
    """`143771Mi`, `141Gi`, `192G`, or plain MiB as NVIDIA's labels write it, in GiB; None where it is no size."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(mi|mib|gi|gib|g|gb|ti)?", text.strip().lower())
    if match is None:
        return None
    value, unit = float(match.group(1)), match.group(2) or "mi"
    return value * {"t": 1024.0, "g": 1.0, "m": 1 / 1024}[unit[0]]

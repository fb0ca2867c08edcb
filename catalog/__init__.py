"""Capacity-prior catalog: schema, identity, resolution, workload mix, merge, retire, embedded data.

What one replica can serve is looked up by what it is (role, model, quantization, engine, hardware, parallel degrees)
in a catalog of measurements. Importers of benchmark results are in `catalog.importers`.
"""

from catalog.canonical import catalog_digest, catalog_json, catalog_yaml, profile_digest
from catalog.identity import Engine, Identity, IdentityError, Parallel, Quantization, Role, parse_identity
from catalog.inference import (
    Identified,
    IdentityProblem,
    IdentityRefusal,
    RoleIdentity,
    Unidentified,
    infer_identity,
)
from catalog.inputs import ArtifactInput, HardwareInput, Hub, RoleInput
from catalog.loading import (
    CatalogCache,
    CatalogFailure,
    CatalogProblem,
    CatalogResult,
    LoadedCatalog,
    load_embedded,
    load_file,
    load_text,
)
from catalog.merge import MergeResult, merge_catalogs
from catalog.objects import pool_says_hardware, role_input, role_inputs
from catalog.operating_point import LatencyTargets, OperatingPoint
from catalog.prediction import ObservedMix
from catalog.resolution import (
    DemandUnit,
    MixReport,
    ResolvedCapacity,
    RolePrior,
    RoleRequest,
    ScalerPriors,
    resolve_role,
    resolve_scaler,
)
from catalog.retire import retire
from catalog.role_hardware import group_label, labels_that_count
from catalog.schema import API_VERSION, CONFIG_MAP_KEY, KIND, Catalog, Point, Profile, Source, Tombstone, Workload
from catalog.workload_mix import MixRefusal

__all__ = [
    "API_VERSION",
    "CONFIG_MAP_KEY",
    "KIND",
    "ArtifactInput",
    "Catalog",
    "CatalogCache",
    "CatalogFailure",
    "CatalogProblem",
    "CatalogResult",
    "DemandUnit",
    "Engine",
    "HardwareInput",
    "Hub",
    "Identified",
    "Identity",
    "IdentityError",
    "IdentityProblem",
    "IdentityRefusal",
    "LatencyTargets",
    "LoadedCatalog",
    "MergeResult",
    "MixRefusal",
    "MixReport",
    "ObservedMix",
    "OperatingPoint",
    "Parallel",
    "Point",
    "Profile",
    "Quantization",
    "ResolvedCapacity",
    "Role",
    "RoleIdentity",
    "RoleInput",
    "RolePrior",
    "RoleRequest",
    "ScalerPriors",
    "Source",
    "Tombstone",
    "Unidentified",
    "Workload",
    "catalog_digest",
    "catalog_json",
    "catalog_yaml",
    "group_label",
    "infer_identity",
    "labels_that_count",
    "load_embedded",
    "load_file",
    "load_text",
    "merge_catalogs",
    "parse_identity",
    "pool_says_hardware",
    "profile_digest",
    "resolve_role",
    "resolve_scaler",
    "retire",
    "role_input",
    "role_inputs",
]

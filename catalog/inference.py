"""The identity of a role, inferred from what it runs, or the reason why it cannot be told. Fail-closed: nothing is
guessed.

- Model: the hub repository of the ModelArtifact; a mount path or a served name proves nothing.
- Quantization: the flag, else the name of the repository, else unstated. A flag that leaves the bits open needs the
name.
- Engine and degrees: the role's arguments and variables by the engine's own rules; a take-over command, a configuration
  file or a shell string cannot be read.
- Settings that change the speed and that no identity states (the type of the KV cache, CUDA graphs, adapters) are
  refused; a declaration says that the catalog was measured with them.
- Hardware: the InstanceType, else the labels of its nodes; slices and partitions are other hardware.
- The degrees must multiply out to the accelerators that the role's Pods hold.

A person may declare a whole identity for what cannot be read (the annotation `…/identity.<role>`). A declaration that
contradicts something that can be read is refused.

Every refusal names the role, the field, what was wanted and what was found, and never holds a value of a variable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from catalog.arguments import ArgumentProblem
from catalog.engine_flags import EngineReading, read_engine
from catalog.hardware import HardwareProblem, HardwareRefusal
from catalog.identity import (
    DEGREES,
    MAX_DEGREE,
    Engine,
    Identity,
    IdentityError,
    Parallel,
    Quantization,
    Role,
    check_model,
    check_parallel,
    parse_engine,
    parse_identity,
)
from catalog.inputs import ArtifactInput, Hub, RoleInput
from catalog.quantization import leaves_bits_open, quantization_of_flag, quantizations_of_repository
from catalog.role_hardware import hardware_of
from controller.foundation import redact

# ModelScope mirrors whose owner or name differs from the repository that the public measurement world knows.
_MIRROR_OWNERS: Final = {"openai-mirror": "openai", "llm-research": "meta-llama", "zhipuai": "zai-org"}
_MIRROR_NAMES: Final = {
    "meta-llama/meta-llama-3.3-70b-instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "meta-llama/meta-llama-3.1-70b-instruct": "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/meta-llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
}


class IdentityProblem(StrEnum):
    """Why a role's identity cannot be told."""

    OBJECT_DAMAGED = "ObjectDamaged"
    ROLE_UNSUPPORTED = "RoleUnsupported"
    ENGINE_UNKNOWN = "EngineUnknown"
    TAKE_OVER_COMMAND = "TakeOverCommand"
    ARGUMENTS_UNREADABLE = "ArgumentsUnreadable"
    NOT_PLAIN = "NotPlain"
    SETTING_UNSTATED = "SettingUnstated"
    MODEL_UNKNOWN = "ModelUnknown"
    QUANTIZATION_UNKNOWN = "QuantizationUnknown"
    QUANTIZATION_CONTRADICTED = "QuantizationContradicted"
    HARDWARE_UNKNOWN = "HardwareUnknown"
    HARDWARE_OTHER_FORM = "HardwareOtherForm"
    ACCELERATORS_UNKNOWN = "AcceleratorsUnknown"
    TOPOLOGY = "Topology"
    DECLARATION_INVALID = "DeclarationInvalid"
    DECLARATION_CONTRADICTED = "DeclarationContradicted"


# A declaration fills what cannot be read; these were read, and say that no profile fits.
_READ_AND_WRONG: Final = frozenset((IdentityProblem.NOT_PLAIN, IdentityProblem.HARDWARE_OTHER_FORM))


@dataclass(frozen=True, slots=True)
class IdentityRefusal:
    """One reason, in parts and as a sentence."""

    role: str
    problem: IdentityProblem
    field: str
    wanted: str
    found: str

    @property
    def message(self) -> str:
        """`role decode: parallel: wanted …, found …`."""
        return f"role {self.role}: {self.field}: wanted {self.wanted}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Identified:
    """A role whose identity is known; `declared` where a person's annotation says it. `most_requests` is what one
    replica runs at once by its own flags: no part of the identity, and a bound on the points that can serve."""

    identity: Identity
    declared: bool = False
    most_requests: int | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Unidentified:
    """A role whose identity is not known; at least one refusal, the first being the one to mend first."""

    refusals: tuple[IdentityRefusal, ...]
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def message(self) -> str:
        """All reasons. A secret that is a word of the sentences is blanked in them, too."""
        return without_secrets("; ".join(refusal.message for refusal in self.refusals), self.secrets)


RoleIdentity = Identified | Unidentified


def infer_identity(role: RoleInput) -> RoleIdentity:
    """The identity of a role or every reason against it."""
    if role.damage:
        refusal = IdentityRefusal(
            role.name, IdentityProblem.OBJECT_DAMAGED, "object", "members of the types of the contract", role.damage
        )
        return Unidentified((_redacted(refusal, role),), role.secrets)
    parts = _Parts(role)
    result = parts.inferred() if role.declared is None else parts.declared(role.declared)
    if isinstance(result, Identity):
        return Identified(
            result, declared=role.declared is not None, most_requests=role.most_requests, secrets=role.secrets
        )
    return Unidentified(tuple(_redacted(refusal, role) for refusal in result), role.secrets)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """`text` with every secret blanked, also where it stands escaped inside quotes."""
    return redact(text, {form for secret in secrets for form in (secret, repr(secret)[1:-1])})


def _redacted(refusal: IdentityRefusal, role: RoleInput) -> IdentityRefusal:
    return IdentityRefusal(
        role=refusal.role,
        problem=refusal.problem,
        field=without_secrets(refusal.field, role.secrets),
        wanted=without_secrets(refusal.wanted, role.secrets),
        found=without_secrets(refusal.found, role.secrets),
    )


class _Parts:
    """Every part of the identity, read on its own: each is a value or a refusal."""

    def __init__(self, role: RoleInput) -> None:
        self._role = role
        self.kind = self._kind()
        self.engine = self._engine()
        self.model = self._model(role.artifact)
        self.reading = self._reading()
        self.setting = self._setting()
        self.quantization = self._quantization()
        self.hardware = self._hardware()
        self.parallel = self._parallel()

    def inferred(self) -> Identity | list[IdentityRefusal]:
        """The identity when every part was read, else all refusals."""
        refusals = self.refusals()
        if (
            refusals
            or isinstance(self.kind, IdentityRefusal)
            or isinstance(self.engine, IdentityRefusal)
            or isinstance(self.model, IdentityRefusal)
            or isinstance(self.quantization, IdentityRefusal)
            or isinstance(self.hardware, IdentityRefusal)
            or isinstance(self.parallel, IdentityRefusal)
        ):
            return refusals
        return Identity(
            role=self.kind,
            model=self.model,
            quantization=self.quantization,
            engine=self.engine,
            hardware=self.hardware,
            parallel=self.parallel,
        )

    def refusals(self) -> list[IdentityRefusal]:
        """All refusals, each once, in order of the parts."""
        parts = (
            self.kind,
            self.engine,
            self.reading,
            self.setting,
            self.model,
            self.quantization,
            self.hardware,
            self.parallel,
        )
        return list(dict.fromkeys(part for part in parts if isinstance(part, IdentityRefusal)))

    def declared(self, text: str) -> Identity | list[IdentityRefusal]:
        """The declared identity when nothing that was read contradicts it."""
        try:
            declared = parse_identity(text)
        except IdentityError as error:
            return [
                self._refusal(
                    IdentityProblem.DECLARATION_INVALID, "declared identity", "a canonical identity", str(error)
                )
            ]
        if declared.quantization is None:
            return [
                self._refusal(
                    IdentityProblem.DECLARATION_INVALID, "declared identity", "a stated quantization", "an unstated one"
                )
            ]
        wrong = [refusal for refusal in self.refusals() if refusal.problem in _READ_AND_WRONG]
        return wrong or self._contradictions(declared) or declared

    def _contradictions(self, declared: Identity) -> list[IdentityRefusal]:
        pairs: list[tuple[str, object, object]] = [
            ("role", self.kind, declared.role),
            ("engine", self.engine, declared.engine),
            ("model", self.model, declared.model),
            ("quantization", self.quantization, declared.quantization),
            ("hardware", self.hardware, declared.hardware),
        ]
        if isinstance(self.parallel, IdentityRefusal):
            # The Pods say how many accelerators there are even where the arguments cannot be read.
            per_pod = self._role.accelerators_per_pod
            held = per_pod * self._role.size if per_pod else None
            pairs.append(("parallel.gpus", held, declared.parallel.gpus))
        else:
            pairs += [
                (f"parallel.{name}", getattr(self.parallel, name), getattr(declared.parallel, name)) for name in DEGREES
            ]
        return [
            self._refusal(
                IdentityProblem.DECLARATION_CONTRADICTED, field, f"{wanted}, as the annotation declares", str(read)
            )
            for field, read, wanted in pairs
            if read is not None and not isinstance(read, IdentityRefusal) and str(read).lower() != str(wanted).lower()
        ]

    def _refusal(self, problem: IdentityProblem, field_name: str, wanted: str, found: str) -> IdentityRefusal:
        return IdentityRefusal(self._role.name, problem, field_name, wanted, found)

    def _kind(self) -> Role | IdentityRefusal:
        try:
            return Role(self._role.kind)
        except ValueError:
            kinds = ", ".join(role.value for role in Role)
            return self._refusal(IdentityProblem.ROLE_UNSUPPORTED, "role kind", f"one of {kinds}", self._role.kind)

    def _engine(self) -> Engine | IdentityRefusal:
        try:
            engine = parse_engine(self._role.engine)
        except IdentityError:
            engine = None
        if engine in (Engine.VLLM, Engine.SGLANG):
            return engine
        return self._refusal(IdentityProblem.ENGINE_UNKNOWN, "engine", "vLLM or SGLang", repr(self._role.engine))

    def _model(self, artifact: ArtifactInput | None) -> str | IdentityRefusal:
        wanted = "a ModelArtifact with a huggingFace or modelScope repository"
        if artifact is None:
            return self._refusal(IdentityProblem.MODEL_UNKNOWN, "model", wanted, "no spec.model.artifactRef")
        if artifact.hub is Hub.OTHER or not artifact.repository:
            found = f"ModelArtifact {artifact.name}, whose source names no repository"
            return self._refusal(IdentityProblem.MODEL_UNKNOWN, "model", wanted, found)
        name = artifact.repository.strip()
        if artifact.hub is Hub.MODEL_SCOPE:
            name = _mirrored(name)
        try:
            return check_model(name)
        except IdentityError as error:
            return self._refusal(IdentityProblem.MODEL_UNKNOWN, "model", wanted, str(error))

    def _reading(self) -> EngineReading | IdentityRefusal:
        if self._role.command:
            return self._refusal(
                IdentityProblem.TAKE_OVER_COMMAND,
                "command",
                "a managed role, or an identity declared by annotation",
                "a take-over command that cannot be read",
            )
        if isinstance(self.engine, IdentityRefusal):
            return self.engine
        reading = read_engine(self._role, self.engine)
        if isinstance(reading, ArgumentProblem):
            return self._refusal(IdentityProblem.ARGUMENTS_UNREADABLE, reading.flag, reading.wanted, reading.found)
        if reading.forbids is not None:
            problem = reading.forbids
            return self._refusal(IdentityProblem.NOT_PLAIN, problem.flag, problem.wanted, problem.found)
        return reading

    def _setting(self) -> IdentityRefusal | None:
        """Apart from the reading, which stands: a declaration settles the setting and nothing else."""
        if isinstance(self.reading, IdentityRefusal) or self.reading.unstated is None:
            return None
        problem = self.reading.unstated
        return self._refusal(IdentityProblem.SETTING_UNSTATED, problem.flag, problem.wanted, problem.found)

    def _quantization(self) -> Quantization | IdentityRefusal | None:
        named: tuple[Quantization, ...] = ()
        if isinstance(self.model, str):
            named = quantizations_of_repository(self.model)
        if len(named) > 1:
            return self._refusal(
                IdentityProblem.QUANTIZATION_UNKNOWN,
                "quantization",
                "one quantization in the repository's name",
                " and ".join(named),
            )
        by_name = named[0] if named else None
        if isinstance(self.reading, IdentityRefusal):
            # Unreadable arguments may hold a quantization flag.
            return self.reading
        flag = self.reading.quantization
        if flag is None:
            return by_name
        by_flag = quantization_of_flag(flag.text)
        if by_flag is None:
            if leaves_bits_open(flag.text) and by_name is not None:
                return by_name
            return self._refusal(
                IdentityProblem.QUANTIZATION_UNKNOWN,
                "quantization",
                "a value that states the number of bits, or a repository name that does",
                flag.shown,
            )
        # A 16-bit repository quantized when it is loaded is what the flag says.
        if by_name not in (None, by_flag, Quantization.BF16, Quantization.FP16):
            return self._refusal(
                IdentityProblem.QUANTIZATION_CONTRADICTED,
                "quantization",
                f"{by_name}, as the repository's name says",
                f"{by_flag} by flag",
            )
        return by_flag

    def _hardware(self) -> str | IdentityRefusal:
        wanted = "a whole accelerator of a known family"
        if self._role.sliced or self._role.partitioned_profile:
            what = self._role.partitioned_profile or "a share of a card"
            return self._refusal(
                IdentityProblem.HARDWARE_OTHER_FORM, "hardware", wanted, f"a slice or partition ({what})"
            )
        found = hardware_of(self._role.hardware)
        if isinstance(found, HardwareRefusal):
            unknown = found.problem is HardwareProblem.UNKNOWN_VENDOR
            problem = IdentityProblem.HARDWARE_UNKNOWN if unknown else IdentityProblem.HARDWARE_OTHER_FORM
            return self._refusal(problem, "hardware", wanted, found.message)
        return found

    def _parallel(self) -> Parallel | IdentityRefusal:
        if isinstance(self.reading, IdentityRefusal):
            return self.reading
        if isinstance(self.engine, IdentityRefusal):
            return self.engine
        per_pod, size = self._role.accelerators_per_pod, self._role.size
        if not per_pod or per_pod < 1 or size < 1 or per_pod * size > MAX_DEGREE:
            return self._refusal(
                IdentityProblem.ACCELERATORS_UNKNOWN,
                "resources.accelerator",
                "at least one whole accelerator per Pod",
                "none" if not per_pod else f"{per_pod} in each of {size} Pods",
            )
        reading = self.reading
        # An undeclared local size is 1, whatever the engine makes of it; a profile leaves it out in the same way.
        parallel = Parallel(
            gpus=per_pod * size,
            tp=reading.tp,
            ep=reading.ep,
            pp=reading.pp,
            dp=reading.dp,
            ldp=reading.ldp,
            cp=reading.cp,
        )
        problem = check_parallel(self.engine, parallel)
        if problem is not None:
            held = f"{per_pod * size} accelerators per replica"
            return self._refusal(IdentityProblem.TOPOLOGY, "parallel", f"degrees that fill {held}", problem)
        return parallel


def _mirrored(repository: str) -> str:
    owner, _, name = repository.partition("/")
    renamed = f"{_MIRROR_OWNERS.get(owner.lower(), owner)}/{name}"
    return _MIRROR_NAMES.get(renamed.lower(), renamed)

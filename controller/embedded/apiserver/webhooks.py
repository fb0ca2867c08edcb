"""Admission webhooks: the stored Mutating- and ValidatingWebhookConfigurations, called as the real server calls them.

A webhook is called when operation, group, version, resource and scope fit one of its rules, its selectors select the
namespace and the object, and its `matchConditions` hold; with matchPolicy Equivalent (the default) an object of another
served version is converted for the call. Mutating webhooks come first, by configuration name, each seeing what the one
before it made; then the validating ones. A call that fails is a refusal (500) or nothing, by `failurePolicy`.

Not done: `reinvocationPolicy: IfNeeded` calls nobody twice, and validating webhooks are called one after the other.
"""

from __future__ import annotations

import base64
import binascii
import random
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from controller.embedded.apiserver.admission import AdmissionRequest
from controller.embedded.apiserver.cel import CelUnsupported, compile_rule
from controller.embedded.apiserver.cel_functions import CelError
from controller.embedded.apiserver.errors import ApiError, Object, bad_request
from controller.embedded.apiserver.metadata import new_uid
from controller.embedded.apiserver.patch_json import apply_json_patch
from controller.embedded.apiserver.resources import ServedVersion
from controller.embedded.apiserver.selectors import selects
from controller.embedded.apiserver.storage import Store
from controller.embedded.apiserver.targets import copied

_GROUP = "admissionregistration.k8s.io"
_MUTATING = (_GROUP, "mutatingwebhookconfigurations")
_VALIDATING = (_GROUP, "validatingwebhookconfigurations")
_DEFAULT_TIMEOUT_SECONDS = 10
_DEFAULT_PORT = 443
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
# Side effects that may happen in a dry run: none.
_DRY_RUN_SAFE = ("None", "NoneOnDryRun")

# (namespace, name, port) of a Service → where it really listens, as scheme://host:port.
ResolveService = Callable[[str, str, int], str]


class _CallFailed(Exception):
    """A webhook that could not be asked or did not answer as it must."""


@dataclass(slots=True)
class Webhooks:
    """Admission by call-out. `resolve_service` is needed where a webhook is given as a Service."""

    store: Store
    rng: random.Random
    resolve_service: ResolveService | None = None
    _session: aiohttp.ClientSession | None = field(default=None)

    async def admit(self, request: AdmissionRequest, warnings: list[str]) -> Object:
        """The object to store; raises ApiError where a webhook refuses or cannot be asked."""
        subject = request.subject
        if request.served.type.group == _GROUP:
            return subject  # nobody may lock the cluster by refusing changes of webhooks
        for hook in self._hooks(_MUTATING):
            if request.obj is None:
                await self._ask(hook, request, subject, warnings)
            else:
                subject = await self._ask(hook, request, subject, warnings)
        for hook in self._hooks(_VALIDATING):
            await self._ask(hook, request, subject, warnings)
        return subject

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _hooks(self, key: tuple[str, str]) -> Iterator[Object]:
        for configuration in self.store.collection(key).scan():
            yield from configuration.object.get("webhooks") or ()

    async def _ask(self, hook: Object, request: AdmissionRequest, subject: Object, warnings: list[str]) -> Object:
        """The subject after one webhook, itself where nothing changes."""
        name = str(hook.get("name", ""))
        try:
            version = self._called_version(hook, request, subject)
            if version is None:
                return subject
            if request.dry_run and hook.get("sideEffects") not in _DRY_RUN_SAFE:
                raise bad_request(f"admission webhook {name!r} does not support dry run")
            response = await self._call(hook, self._review(request, subject, version))
        except _CallFailed as error:
            if hook.get("failurePolicy") == "Ignore":
                return subject
            message = f'failed calling webhook "{name}": {error}'
            details = {"causes": [{"message": message}]}
            raise ApiError(500, "InternalError", f"Internal error occurred: {message}", details=details) from None
        warnings += [str(text) for text in response.get("warnings") or ()]
        if not response.get("allowed"):
            raise _refusal(name, response.get("status") or {})
        return _patched(subject, response, request.served, version) if request.obj is not None else subject

    def _called_version(self, hook: Object, request: AdmissionRequest, subject: Object) -> ServedVersion | None:
        """The version in which the webhook gets the object; None where it is not called."""
        rules = hook.get("rules") or ()
        versions = [request.served]
        if hook.get("matchPolicy") != "Exact":
            versions += [other for other in request.served.type.versions.values() if other is not request.served]
        version = next((one for one in versions if any(_fits(rule, request, one) for rule in rules)), None)
        if version is None:
            return None
        labels = [part["metadata"].get("labels") or {} for part in (request.obj, request.old) if part is not None]
        if not any(selects(hook.get("objectSelector"), given) for given in labels):
            return None
        if not selects(hook.get("namespaceSelector"), self._namespace_labels(request, subject)):
            return None
        return version if self._conditions_hold(hook, request, subject) else None

    def _namespace_labels(self, request: AdmissionRequest, subject: Object) -> dict[str, str] | None:
        resource = request.served.type
        if resource.plural == "namespaces" and not resource.group:
            return subject["metadata"].get("labels") or {}
        if not resource.namespaced:
            return None
        found = self.store.collection(("", "namespaces")).get(subject["metadata"].get("namespace", ""))
        return {} if found is None else found.object["metadata"].get("labels") or {}

    def _conditions_hold(self, hook: Object, request: AdmissionRequest, subject: Object) -> bool:
        environment = {
            "object": None if request.obj is None else subject,
            "oldObject": request.old,
            "request": _request_object(request, subject, request.served, ""),
        }
        failure = ""
        for condition in hook.get("matchConditions") or ():
            try:
                if compile_rule(str(condition.get("expression", ""))).evaluate(environment) is not True:
                    return False
            except (CelError, CelUnsupported) as error:
                failure = f"match condition {condition.get('name')!r}: {error}"
        if failure:
            raise _CallFailed(failure)
        return True

    def _review(self, request: AdmissionRequest, subject: Object, version: ServedVersion) -> Object:
        uid = new_uid(self.rng)
        body = _request_object(request, subject, version, uid)
        body["object"] = None if request.obj is None else _converted(subject, version)
        body["oldObject"] = None if request.old is None else _converted(request.old, version)
        return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": body}

    async def _call(self, hook: Object, review: Object) -> Object:
        seconds = int(hook.get("timeoutSeconds") or _DEFAULT_TIMEOUT_SECONDS)
        client = hook.get("clientConfig") or {}
        url, hostname = self._address(client)
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            async with self._session.post(
                url,
                params={"timeout": f"{seconds}s"},
                data=orjson.dumps(review),
                headers=_HEADERS,
                timeout=aiohttp.ClientTimeout(total=seconds),
                ssl=_tls(client.get("caBundle")) if url.startswith("https:") else True,
                server_hostname=hostname if url.startswith("https:") else None,
            ) as response:
                raw = await response.read()
                if response.status != 200:
                    raise _CallFailed(f"failed to call webhook: it answered {response.status} at {url}")
        except (aiohttp.ClientError, TimeoutError, OSError, ssl.SSLError) as error:
            raise _CallFailed(f'failed to call webhook: Post "{url}": {error or type(error).__name__}') from None
        return _response(raw, review["request"]["uid"])

    def _address(self, client: Object) -> tuple[str, str | None]:
        """(URL, the name that the certificate must have) of a webhook."""
        if client.get("url"):
            return str(client["url"]), None
        service = client.get("service") or {}
        namespace, name = str(service.get("namespace", "")), str(service.get("name", ""))
        if self.resolve_service is None:
            raise _CallFailed(f"service {namespace}/{name}: this server was given no resolve_service")
        base = self.resolve_service(namespace, name, int(service.get("port") or _DEFAULT_PORT))
        return base.rstrip("/") + "/" + str(service.get("path") or "").lstrip("/"), f"{name}.{namespace}.svc"


def _tls(bundle: str | None) -> ssl.SSLContext:
    if not bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())
    except (binascii.Error, UnicodeDecodeError, ssl.SSLError) as error:
        raise _CallFailed(f"caBundle cannot be read: {error}") from None


def _fits(rule: Object, request: AdmissionRequest, version: ServedVersion) -> bool:
    resource = version.type

    def has(member: str, *wanted: str) -> bool:
        given: Any = rule.get(member) or ()
        return "*" in given or any(text in given for text in wanted)

    scope = rule.get("scope") or "*"
    if scope != "*" and (scope == "Namespaced") is not resource.namespaced:
        return False
    if request.subresource:
        names = [
            f"{resource.plural}/{request.subresource}",
            f"{resource.plural}/*",
            f"*/{request.subresource}",
            "*/*",
        ]
        fits = any(name in (rule.get("resources") or ()) for name in names)
    else:
        fits = has("resources", resource.plural, f"{resource.plural}/*", "*/*")
    return (
        fits
        and has("operations", request.operation)
        and has("apiGroups", resource.group)
        and has("apiVersions", version.version)
    )


def _request_object(request: AdmissionRequest, subject: Object, version: ServedVersion, uid: str) -> Object:
    resource = version.type
    metadata = subject["metadata"]
    kind = {"group": resource.group, "version": version.version, "kind": resource.kind}
    place = {"group": resource.group, "version": version.version, "resource": resource.plural}
    asked = request.served.version
    found: Object = {
        "uid": uid,
        "kind": kind,
        "resource": place,
        "subResource": request.subresource,
        "requestKind": {**kind, "version": asked},
        "requestResource": {**place, "version": asked},
        "requestSubResource": request.subresource,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": request.operation,
        "userInfo": request.user.as_object(),
        "dryRun": request.dry_run,
        "options": {"kind": _OPTIONS[request.operation], "apiVersion": "meta.k8s.io/v1", **request.options},
    }
    return {name: value for name, value in found.items() if value != ""}


def _converted(obj: Object, version: ServedVersion) -> Object:
    return obj if obj.get("apiVersion") == version.api_version else {**obj, "apiVersion": version.api_version}


def _response(raw: bytes, uid: str) -> Object:
    try:
        review = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _CallFailed(f"its answer is no JSON: {error}") from None
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise _CallFailed("its answer holds no response")
    if response.get("uid") != uid:
        raise _CallFailed(f"expected response.uid={uid!r}, got {response.get('uid')!r}")
    return response


def _patched(subject: Object, response: Object, served: ServedVersion, version: ServedVersion) -> Object:
    patch = response.get("patch")
    if not patch:
        return subject
    if response.get("patchType") != "JSONPatch":
        raise _CallFailed(f"its patchType is {response.get('patchType')!r}, not JSONPatch")
    try:
        operations = orjson.loads(base64.b64decode(patch))
    except (binascii.Error, orjson.JSONDecodeError) as error:
        raise _CallFailed(f"its patch cannot be read: {error}") from None
    changed: Object = apply_json_patch(copied(_converted(subject, version)), operations)
    return {**changed, "apiVersion": served.api_version}


def _refusal(name: str, status: Object) -> ApiError:
    denied = f'admission webhook "{name}" denied the request'
    said = status.get("message") or status.get("reason")
    code = status.get("code")
    if not isinstance(code, int) or code < 400:
        code = 400
    message = f"{denied}: {said}" if said else f"{denied} without explanation"
    return ApiError(code, str(status.get("reason") or ""), message, details=status.get("details"))

"""Resource requests over HTTP: from a request info to the verbs, reading ones (`reads`) or writing ones (here), and
back to an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from controller.embedded.apiserver import errors
from controller.embedded.apiserver.access import Access
from controller.embedded.apiserver.answers import answer_outcome, list_item, respond
from controller.embedded.apiserver.deletion import DeleteOptions, delete
from controller.embedded.apiserver.errors import Object
from controller.embedded.apiserver.faults import Action
from controller.embedded.apiserver.listing import list_head, list_page
from controller.embedded.apiserver.negotiation import Accepted, read_body, warning_header
from controller.embedded.apiserver.operations import Operations
from controller.embedded.apiserver.patch_json import apply_json_patch
from controller.embedded.apiserver.patch_merge import apply_merge_patch, apply_strategic_patch
from controller.embedded.apiserver.pod_binding import bind_pod
from controller.embedded.apiserver.pruning import duplicate_members
from controller.embedded.apiserver.rbac import User
from controller.embedded.apiserver.reading import read_as
from controller.embedded.apiserver.reads import Reads
from controller.embedded.apiserver.requests import ListOptions, RequestInfo, WriteOptions
from controller.embedded.apiserver.resources import Registry, ServedVersion
from controller.embedded.apiserver.reviews import answer_review, issue_token
from controller.embedded.apiserver.selectors import parse_selector
from controller.embedded.apiserver.shapes import root_shape
from controller.embedded.apiserver.storage import Store
from controller.embedded.apiserver.targets import Outcome, Target, strict_error
from controller.foundation import Clock

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(slots=True)
class ResourceHandler:
    """Answers the requests about resources."""

    store: Store
    registry: Registry
    operations: Operations
    clock: Clock
    access: Access
    reads: Reads

    async def handle(
        self, request: web.BaseRequest, info: RequestInfo, user: User, actions: Sequence[Action]
    ) -> web.StreamResponse:
        """The answer, already streamed for a watch. Raises ApiError."""
        served = self.registry.find(info.group, info.version, info.resource)
        if served is None:
            if info.version in self.registry.groups().get(info.group, ()):
                raise errors.no_such_path()
            return _no_such_page()
        if served.type.custom and served.type.namespaced and not info.namespace and info.verb not in _ACROSS_NAMESPACES:
            return _no_such_page()
        if info.namespace and not served.type.namespaced and info.resource != "namespaces":
            raise errors.no_such_path()
        if info.resource == "serviceaccounts" and info.subresource == "token" and request.method == "POST":
            body = read_body(request.headers.get("Content-Type", ""), await _read(request))
            made = issue_token(body, info.namespace, info.name, self.access)
            return respond(request, orjson.dumps(made), Accepted(), 201)
        if served.type.resource == _PODS and info.subresource == "binding" and request.method == "POST":
            return await self._bind(request, Target(served, info.namespace, info.name, "", user))
        if info.subresource and (info.subresource != "status" or not served.status):
            raise errors.not_found(served.type.resource, info.name) if served.type.custom else errors.no_such_path()
        namespace = info.namespace if served.type.namespaced else ""
        target = Target(served, namespace, info.name, info.subresource, user)
        if not served.deprecation:
            return await self._dispatch(request, info, target, actions)
        try:
            response = await self._dispatch(request, info, target, actions)
        except errors.ApiError as error:
            error.warnings.append(served.deprecation)
            raise
        if not response.prepared:
            response.headers.add("Warning", warning_header(served.deprecation))
        return response

    async def _bind(self, request: web.BaseRequest, target: Target) -> web.Response:
        options = WriteOptions.parse(request.query, request.headers.get("User-Agent", ""), "create")
        body = read_body(request.headers.get("Content-Type", ""), await _read(request))
        return respond(request, orjson.dumps(bind_pod(self.operations, target, body, options)), Accepted(), 201)

    async def _dispatch(
        self, request: web.BaseRequest, info: RequestInfo, target: Target, actions: Sequence[Action]
    ) -> web.StreamResponse:
        served, query = target.served, request.query
        if request.method == "HEAD" and not served.type.custom:
            raise errors.method_not_allowed()
        if not info.name and request.method in ("PUT", "PATCH"):
            raise errors.bad_request("name must be provided") if served.type.custom else errors.method_not_allowed()
        if info.name and request.method == "POST" and not served.type.custom:
            raise errors.method_not_allowed()
        if served.type.traits.virtual and info.verb != "create":
            raise errors.method_not_allowed()
        if info.verb == "watch":
            return await self.reads.watch(request, target, query, actions)
        if info.verb == "list":
            return await self.reads.list(request, target, query)
        if info.verb == "get":
            return await self.reads.get(request, target, query)
        if info.verb == "create":
            return await self._create(request, target, query)
        if info.verb == "update":
            options, body, warnings = await self._read_write(request, target, query)
            with errors.warned(warnings):
                outcome = await self.operations.update(target, body, options)
            return self._answer(request, served, outcome, warnings)
        if info.verb == "patch":
            return await self._patch(request, target, query)
        if info.verb == "delete":
            return await self._delete(request, target, query)
        if info.verb == "deletecollection":
            return await self._delete_collection(request, target, query)
        raise errors.method_not_allowed()

    # -- writes ----------------------------------------------------------------------------------------------------

    async def _read_write(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> tuple[WriteOptions, Any, list[str]]:
        """Options, parsed body and warnings (duplicate members) of a write."""
        verb = "update" if request.method == "PUT" else "create"
        options = WriteOptions.parse(query, request.headers.get("User-Agent", ""), verb)
        raw = await _read(request)
        body = read_body(request.headers.get("Content-Type", ""), raw)
        return options, body, _duplicates(raw, body, target, options, patched=False)

    async def _create(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        if target.served.type.namespaced and not target.namespace:
            raise errors.method_not_allowed()
        options, body, warnings = await self._read_write(request, target, query)
        if target.served.type.traits.virtual:
            asked = read_as(target.served, body)
            made = answer_review(target.served.type.kind, asked, target.user, target.namespace, self.access)
            return respond(request, orjson.dumps(made), Accepted(), 201)
        with errors.warned(warnings):
            outcome = await self.operations.create(target, body, options)
        return self._answer(request, target.served, outcome, warnings)

    async def _patch(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        served = target.served
        options = WriteOptions.parse(query, request.headers.get("User-Agent", ""))
        form = request.headers.get("Content-Type", "").split(";", 1)[0].strip().lower()
        accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
        if not served.type.custom:
            accepted.insert(2, STRATEGIC_PATCH)
        if form not in accepted:
            raise errors.unsupported_media_type(accepted)
        raw = await _read(request)
        patch = read_body(form, raw)
        warnings = [] if form == JSON_PATCH else _duplicates(raw, patch, target, options, patched=True)
        with errors.warned(warnings):
            if form == APPLY_PATCH:
                outcome = await self.operations.apply(target, patch, options)
            else:
                outcome = await self.operations.patch(
                    target, lambda current: _patched(form, current, patch, served), options
                )
        return self._answer(request, served, outcome, warnings)

    async def _delete(self, request: web.BaseRequest, target: Target, query: Mapping[str, str]) -> web.Response:
        options = await _delete_options(request, query)
        stored = self.store.of(target.served).get(target.key)
        outcome = await delete(self.operations, target, options)
        if outcome.removed and not target.served.type.traits.returns_deleted:
            details: Object = {"name": target.name, "kind": target.served.type.plural}
            if target.served.type.group:
                details["group"] = target.served.type.group
            if stored is not None:
                details["uid"] = stored.uid
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return respond(request, orjson.dumps(body), Accepted())
        return self._answer(request, target.served, outcome, [])

    async def _delete_collection(
        self, request: web.BaseRequest, target: Target, query: Mapping[str, str]
    ) -> web.Response:
        served = target.served
        if served.type.namespaced and not target.namespace:
            raise errors.method_not_allowed()
        options = await _delete_options(request, query)
        selected = ListOptions.parse(query, watching=False)
        selector = parse_selector(selected.label_selector, selected.field_selector, served.fields)
        page = list_page(self.store, served, target.namespace, selected, selector)
        for stored in page.items:
            one = Target(served, target.namespace, stored.name, "", target.user)
            try:
                await delete(self.operations, one, options)
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        head = list_head(served.api_version, page, served.type.list_kind, custom=served.type.custom)
        items = b",".join(list_item(stored, served) for stored in page.items)
        return respond(request, head + items + b"]}", Accepted())

    def _answer(
        self, request: web.BaseRequest, served: ServedVersion, outcome: Outcome, warnings: list[str]
    ) -> web.Response:
        outcome.warnings[:0] = warnings
        return answer_outcome(request, served, outcome, self.clock)


_ACROSS_NAMESPACES = ("list", "watch")
_PODS = errors.GroupResource("", "pods")


def _no_such_page() -> web.Response:
    """404 as the real server's router says it, where no API is asked."""
    return web.Response(status=404, text="404 page not found\n")


def _patched(form: str, current: Object, patch: Any, served: ServedVersion) -> Any:
    if form == JSON_PATCH:
        return apply_json_patch(current, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: json: a merge patch must be an object")
    if form == MERGE_PATCH:
        return apply_merge_patch(current, patch)
    return apply_strategic_patch(current, patch, root_shape(served.schema))


def _duplicates(raw: bytes, body: Any, target: Target, options: WriteOptions, *, patched: bool) -> list[str]:
    if options.field_validation == "Ignore" or not raw.lstrip().startswith(b"{"):
        return []
    texts = [f'duplicate field "{path}"' for path in duplicate_members(raw, body)]
    if texts and options.field_validation == "Strict":
        raise strict_error(target, texts, patched=patched)
    return texts


async def _delete_options(request: web.BaseRequest, query: Mapping[str, str]) -> DeleteOptions:
    raw = await _read(request)
    body = read_body(request.headers.get("Content-Type", ""), raw) if raw.strip() else {}
    return DeleteOptions.parse(body, query)


async def _read(request: web.BaseRequest) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise errors.too_large("limit is 3145728") from None

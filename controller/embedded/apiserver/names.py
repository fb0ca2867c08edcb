"""Which names are allowed where. Each check returns what is said about the rules that a name breaks."""

from __future__ import annotations

import re

from controller.embedded.apiserver.errors import GroupResource

_SUBDOMAIN_FORM = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_FORM = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_FORM = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_FORM = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORM = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORM)
_LABEL = re.compile(_LABEL_FORM)
_DNS_1035 = re.compile(_DNS_1035_FORM)
_QUALIFIED = re.compile(_QUALIFIED_FORM)
_VALUE = re.compile(_VALUE_FORM)
_MAX_SUBDOMAIN = 253
_MAX_LABEL = 63

_EMPTY = "must be non-empty"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN_FORM}')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_FORM}')"
)
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_DNS_1035_FORM}')"
)
_CHARACTERS_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED_FORM}')"
)
_KEY_RULE = (
    f"a valid label key {_CHARACTERS_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE_FORM}')"
)
# Names of these are path segments: `system:node`, and the events of such objects.
_PATH_NAMES = frozenset(
    (
        GroupResource("rbac.authorization.k8s.io", "roles"),
        GroupResource("rbac.authorization.k8s.io", "rolebindings"),
        GroupResource("rbac.authorization.k8s.io", "clusterroles"),
        GroupResource("rbac.authorization.k8s.io", "clusterrolebindings"),
        GroupResource("", "events"),
    )
)
_LABEL_NAMES = frozenset((GroupResource("", "namespaces"), GroupResource("", "services")))


def object_name_problems(name: str, resource: GroupResource, *, base: bool = False) -> list[str]:
    """What is wrong with the name of an object; a `base` is what a generated name begins with."""
    if base and len(name) > 1 and name.endswith("-"):
        name = name[:-2] + "a"
    if resource in _PATH_NAMES:
        return path_problems(name)
    return label_problems(name) if resource in _LABEL_NAMES else subdomain_problems(name)


def path_problems(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in name]


def subdomain_problems(name: str) -> list[str]:
    problems = [f"must be no more than {_MAX_SUBDOMAIN} characters"] if len(name) > _MAX_SUBDOMAIN else []
    return problems if _SUBDOMAIN.fullmatch(name) else [*problems, _SUBDOMAIN_RULE]


def label_problems(name: str) -> list[str]:
    problems = [f"must be no more than {_MAX_LABEL} characters"] if len(name) > _MAX_LABEL else []
    if not _LABEL.fullmatch(name):
        problems.append("must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_RULE)
    return problems


def dns_1035_problems(name: str) -> list[str]:
    problems = [f"must be no more than {_MAX_LABEL} characters"] if len(name) > _MAX_LABEL else []
    return problems if _DNS_1035.fullmatch(name) else [*problems, _DNS_1035_RULE]


def qualified_name_problems(name: str) -> list[str]:
    """Keys of labels and annotations, finalizers, controllers: a name with an optional `prefix/`."""
    problems: list[str] = []
    prefix, slash, rest = name.rpartition("/")
    if slash and not prefix:
        problems.append(f"prefix part {_EMPTY}")
    elif "/" in prefix:
        return [_KEY_RULE]
    elif slash:
        problems += [f"prefix part {problem}" for problem in subdomain_problems(prefix)]
    if not rest:
        problems.append(f"name part {_EMPTY}")
    elif len(rest) > _MAX_LABEL:
        problems.append(f"name part must be no more than {_MAX_LABEL} bytes")
    return problems if _QUALIFIED.fullmatch(rest) else [*problems, f"name part {_CHARACTERS_RULE}"]


def label_value_problems(value: str) -> list[str]:
    problems = [f"must be no more than {_MAX_LABEL} bytes"] if len(value) > _MAX_LABEL else []
    return problems if _VALUE.fullmatch(value) else [*problems, _VALUE_RULE]

"""What a target and its Pods say about each role."""

import msgspec
import pytest

from controller.api import MANAGED_BY
from controller.foundation import parse_time
from controller.reconcile.listing import REGISTRATION_SECONDS, Sighting
from controller.reconcile.observe import note_listings, update_sightings, view_role
from tests.reconcile.objects import pod, role, target

NOW = parse_time("2026-01-01T00:10:00Z")


def _view(replicas, pods, *, status=None, size=1, quota=None):
    roles = {"roles": [{"name": "server", "quotaReserved": quota}]} if quota is not None else {}
    object_ = target([role(replicas=replicas, size=size)], status=roles | (status or {}))
    sightings, _ = update_sightings({}, pods, NOW)
    return view_role(object_, object_.roles[0], pods, sightings, NOW)


#    sentence, replicas, pods, kwargs → ready, unadmitted, starting, retiring, serving members
CASES = [
    ("a Ready replica serves", 1, [pod(0)], {}, (1, 0, 0, 0, 1)),
    ("no Pod yet: unadmitted, nobody has a place for it", 2, [pod(0)], {}, (1, 1, 0, 0, 1)),
    ("a scheduled Pod that is not Ready is starting", 2, [pod(0), pod(1, ready=False)], {}, (1, 0, 1, 0, 1)),
    ("a Pod without a node is unadmitted", 2, [pod(0), pod(1, ready=False, scheduled=False)], {}, (1, 1, 0, 0, 1)),
    ("scheduled but without quota is unadmitted", 2, [pod(0), pod(1, ready=False)], {"quota": 1}, (1, 1, 0, 0, 1)),
    ("a Ready replica is admitted whatever the quota says", 1, [pod(0)], {"quota": 0}, (1, 0, 0, 0, 1)),
    ("beyond the declared count a replica is leaving and no capacity", 1, [pod(0), pod(1)], {}, (1, 0, 0, 1, 1)),
    ("a deleted Pod is leaving and not read", 1, [pod(0), pod(1, deleting=True)], {}, (1, 0, 0, 1, 1)),
    ("a replica that lost its eligibility does not serve", 2, [pod(0), pod(1, eligible=False)], {}, (2, 0, 0, 0, 1)),
    ("without any eligibility label Ready is all there is to know", 1, [pod(0, eligible=False)], {}, (1, 0, 0, 0, 1)),
    ("a finished Pod is nothing", 1, [pod(0, phase="Failed")], {}, (0, 1, 0, 0, 0)),
    ("half a replica is not Ready", 1, [pod(0, member=0), pod(0, member=1, ready=False)], {"size": 2}, (0, 0, 1, 0, 0)),
    ("of two members only the leader answers", 1, [pod(0, member=0), pod(0, member=1)], {"size": 2}, (1, 0, 0, 0, 1)),
    ("the same seat twice is not a whole replica", 1, [pod(0, member=0, uid="a"), pod(0, member=0, uid="b")], {"size": 2}, (0, 0, 1, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("replicas", "pods", "kwargs", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_counts(replicas, pods, kwargs, expected):
    view = _view(replicas, pods, **kwargs)
    assert (view.ready, view.unadmitted, view.starting, view.retiring, sum(m.serving for m in view.members)) == expected


@pytest.mark.parametrize(
    ("annotated", "listed", "serving"),
    [
        pytest.param(True, 4, ["0", "0", "1", "1"], id="each member that answers is read"),
        pytest.param(True, 2, ["0", "0"], id="and a replica that no router lists serves nobody"),
        pytest.param(False, 2, ["0", "1"], id="followers are not"),
    ],
)
def test_members_of_external_data_parallelism_in_standalone_mode(annotated, listed, serving):
    labels = {"app.kubernetes.io/managed-by": MANAGED_BY}
    pods = []
    for ordinal, member in ((0, 0), (0, 1), (1, 0), (1, 1)):
        found = pod(ordinal, member=member, ready_at=f"2026-01-01T00:0{ordinal + 1}:00Z")
        annotations = found.metadata.annotations if annotated or member == 0 else {}
        meta = msgspec.structs.replace(
            found.metadata, labels={**found.metadata.labels, **labels}, annotations=annotations
        )
        pods.append(msgspec.structs.replace(found, metadata=meta))
    endpoints = {"eligible": 4 if annotated else 2, "serving": {"state": "Confirmed", "value": listed}}
    view = _view(2, pods, size=2, status={"roles": [{"name": "server", "ready": 2, "endpoints": endpoints}]})
    assert [member.replica for member in view.members if member.serving] == serving
    assert view.unlisted == 2 - len(set(serving))


def test_what_the_operator_counts_as_ready_and_nobody_sees_is_there():
    view = _view(4, [pod(0)], status={"roles": [{"name": "server", "ready": 3}]})
    assert (view.ready, view.unseen, view.unadmitted, view.starting) == (1, 2, 1, 2)


def test_a_replica_on_its_way_out_is_seen_and_does_not_count_as_missing():
    view = _view(1, [pod(0), pod(1)], status={"roles": [{"name": "server", "ready": 2}]})
    assert (view.ready, view.unseen, view.retiring) == (1, 0, 1)


def test_a_replica_in_retirement_is_leaving_before_its_count_says_so():
    retirement = {"retirement": {"roleName": "server", "replicaOrdinal": 1, "state": "Draining"}}
    view = _view(2, [pod(0), pod(1)], status=retirement)
    assert (view.ready, view.retiring) == (1, 1)


def test_an_aborted_retirement_keeps_its_replica_in_the_count():
    retirement = {"retirement": {"roleName": "server", "replicaOrdinal": 1, "state": "Aborted"}}
    assert _view(2, [pod(0), pod(1)], status=retirement).ready == 2


def test_what_a_leaving_replica_still_serves_is_read():
    view = _view(1, [pod(0), pod(1)])
    assert [(member.replica, member.ready, member.serving) for member in view.members] == [
        ("0", True, True),
        ("1", True, False),
    ]


def test_a_start_is_measured_from_the_first_sight_to_ready_on_our_clock():
    seen, startups = update_sightings({}, [pod(0, ready=False)], NOW)
    assert startups == {}
    seen, startups = update_sightings(seen, [pod(0)], NOW + 80)
    assert startups == {"uid-chat-server-0": 80}
    assert seen["uid-chat-server-0"].ready_since == NOW + 80


def test_a_start_nobody_watched_is_taken_from_the_pods_own_times():
    _, startups = update_sightings({}, [pod(0)], NOW)
    assert startups == {"uid-chat-server-0": 76}


def test_becoming_ready_again_is_no_start():
    seen, _ = update_sightings({}, [pod(0)], NOW)
    seen, _ = update_sightings(seen, [pod(0, ready=False)], NOW + 10)
    seen, startups = update_sightings(seen, [pod(0)], NOW + 20)
    assert startups == {}
    assert seen["uid-chat-server-0"] == Sighting(NOW, NOW + 20, was_ready=True)


def test_a_ready_time_in_the_future_is_now():
    seen, _ = update_sightings({}, [pod(0, ready_at="2027-01-01T00:00:00Z")], NOW)
    assert seen["uid-chat-server-0"].ready_since == NOW


def test_a_pod_that_is_gone_is_forgotten():
    seen, _ = update_sightings({}, [pod(0), pod(1)], NOW)
    seen, _ = update_sightings(seen, [pod(0)], NOW + 1)
    assert set(seen) == {"uid-chat-server-0"}


def test_a_clock_that_was_set_back_makes_no_start_of_less_than_no_time():
    seen, _ = update_sightings({}, [pod(0, ready=False), pod(1)], NOW)
    seen, startups = update_sightings(seen, [pod(0), pod(1)], NOW - 3600)
    assert startups == {}
    assert all(sighting.ready_since <= NOW - 3600 for sighting in seen.values())


# ---- who is listed ---------------------------------------------------------------------------------------------------


def _endpoints(state, value=None, eligible=None):
    serving = {"state": state} | ({} if value is None else {"value": value})
    return {"roles": [{"name": "server", "endpoints": {"serving": serving, "eligible": eligible}}]}


NEW = parse_time("2026-01-01T00:09:50Z")  # Ready ten seconds ago
LISTINGS = [
    ("the router lists both", _endpoints("Confirmed", 2), 0),
    ("the router lists one of two", _endpoints("Confirmed", 1), 1),
    ("the router lists nobody", _endpoints("Confirmed", 0), 2),
    ("the router lists more than there are", _endpoints("Confirmed", 5), 0),
    ("a confirmed view without a number says nothing", _endpoints("Confirmed"), 0),
    ("a router that cannot be asked hides nobody", _endpoints("Unknown"), 0),
    ("a state that nobody knows hides nobody", _endpoints("Whatever", 0), 0),
    ("a view that changes makes the new one wait", _endpoints("NotConverged"), 1),
    ("without a router the slices decide", _endpoints("NotConfigured", eligible=1), 1),
    ("without either Ready and eligible is all there is", _endpoints("NotConfigured"), 0),
    ("a status without endpoints says nothing", {"roles": [{"name": "server"}]}, 0),
    ("a missing status says nothing", {}, 0),
]


@pytest.mark.parametrize(("status", "hidden"), [c[1:] for c in LISTINGS], ids=[c[0] for c in LISTINGS])
def test_a_ready_replica_that_is_not_listed_is_no_serving_supply(status, hidden):
    pods = [pod(0), pod(1, ready_at="2026-01-01T00:09:50Z")]
    view = _view(2, pods, status=status)
    assert (view.ready, view.unlisted) == (2, hidden)
    assert sum(member.serving for member in view.members) == 2 - hidden
    if hidden == 1:
        assert [member.serving for member in view.members] == [True, False], "the older one serves"


def test_a_replica_that_lost_its_eligibility_is_not_asked_about():
    view = _view(2, [pod(0), pod(1, eligible=False)], status=_endpoints("Confirmed", 1))
    assert view.unlisted == 0


def _seen(pods, status, *moments):
    object_ = target([role(replicas=2)], status=status)
    sightings = {}
    for now in moments:
        sightings, _ = update_sightings(sightings, pods, now)
        view = view_role(object_, object_.roles[0], pods, sightings, now)
        sightings = note_listings(sightings, [view], now)
    return sightings, view


def test_a_view_that_does_not_settle_says_nothing_about_a_replica_after_a_while():
    pods = [pod(0, ready_at="2026-01-01T00:09:50Z")]
    _, view = _seen(pods, _endpoints("NotConverged"), NOW, NEW + REGISTRATION_SECONDS)
    assert view.unlisted == 0


def test_a_replica_that_was_listed_goes_first_whatever_its_age():
    pods = [pod(0, ready_at="2026-01-01T00:09:00Z"), pod(1, ready_at="2026-01-01T00:09:50Z")]
    sightings, _ = _seen(pods[1:], _endpoints("Confirmed", 1), NOW)
    object_ = target([role(replicas=2)], status=_endpoints("Confirmed", 1))
    sightings, _ = update_sightings(sightings, pods, NOW)
    view = view_role(object_, object_.roles[0], pods, sightings, NOW)
    assert [member.serving for member in view.members] == [False, True]


def test_a_replica_waits_to_be_listed_from_the_moment_it_is_missed():
    pods = [pod(0, created="2025-01-01T00:00:00Z", ready_at="2025-01-01T00:01:16Z")]
    _, view = _seen(pods, _endpoints("Confirmed", 0), NOW, NOW + 15, NOW + 30)
    assert view.starting_since == (NOW,), "a router that restarts makes no replica of a year a stalled start"

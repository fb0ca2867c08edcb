"""The observed length mix: from counter sums, over minutes, per member, and never from silence."""

import pytest

from controller import scaling
from controller.planning import RoleMix, with_mixes


class Feed:
    """One role of two members whose counters grow as told."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.counters = {"a": [0.0, 0.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0, 0.0]}
        self.incarnation = "1"
        self.mixes: dict[str, RoleMix] = {}

    def tick(self, *, prompt=0.0, cached=0.0, output=0.0, requests=0.0, silent=()):
        self.now += 15
        members = []
        for key, counters in self.counters.items():
            for index, step in enumerate((prompt, cached, output, requests)):
                counters[index] += step / 2
            reading = scaling.MemberReading(
                computed_prompt_tokens=counters[0],
                cached_prompt_tokens=counters[1],
                generation_tokens=counters[2],
                finished_requests=counters[3],
            )
            members.append(
                scaling.Member(
                    key=key,
                    incarnation=self.incarnation,
                    replica=key,
                    ready=True,
                    serving=True,
                    ready_since=0.0,
                    sampled_at=self.now,
                    reading=None if key in silent else reading,
                )
            )
        role = scaling.RoleObservation(name="server", current_replicas=2, ready_replicas=2, members=tuple(members))
        self.mixes = with_mixes(self.mixes, scaling.Observation(now=self.now, roles=(role,)))
        return self.mixes["server"].published


def _fed(feed, ticks, **load):
    mix = None
    for _ in range(ticks):
        mix = feed.tick(**load)
    return mix


CHAT = dict(prompt=20_000, output=5_000, requests=20)


def test_a_mix_is_the_ratio_of_sums_with_its_mean_lengths():
    mix = _fed(Feed(), 22, **CHAT)
    assert (mix.input_per_output, mix.mean_input_tokens, mix.mean_output_tokens) == (4.0, 1000.0, 250.0)
    assert mix.requests >= 200


def test_too_few_requests_are_no_mix():
    feed = Feed()
    assert _fed(feed, 22, prompt=20_000, output=5_000, requests=9) is None
    assert _fed(feed, 3, prompt=20_000, output=5_000, requests=9) is not None


def test_less_than_five_minutes_are_no_mix_however_many_requests_there_were():
    feed = Feed()
    assert _fed(feed, 20, prompt=20_000, output=5_000, requests=400) is None
    assert feed.tick(prompt=20_000, output=5_000, requests=400) is not None


def test_cached_prompts_count_as_prompt_and_as_hits():
    mix = _fed(Feed(), 22, prompt=5_000, cached=15_000, output=5_000, requests=20)
    assert (mix.input_per_output, mix.hit_ratio) == (4.0, 0.75)


def test_a_small_change_is_not_published_and_a_large_one_is():
    feed = Feed()
    first = _fed(feed, 30, **CHAT)
    assert _fed(feed, 60, prompt=21_000, output=5_000, requests=20) == first
    assert _fed(feed, 60, prompt=60_000, output=5_000, requests=20).input_per_output == pytest.approx(12.0, rel=0.1)


def test_silence_keeps_the_last_mix():
    feed = Feed()
    first = _fed(feed, 30, **CHAT)
    assert _fed(feed, 100) == first


def test_a_restarted_member_and_a_silent_one_add_nothing_wrong():
    feed = Feed()
    first = _fed(feed, 30, **CHAT)
    feed.incarnation = "2"
    for counters in feed.counters.values():
        counters[:] = [0.0, 0.0, 0.0, 0.0]
    assert _fed(feed, 3, **CHAT) == first
    assert feed.tick(**CHAT, silent=("a",)) == first
    assert feed.tick(**CHAT) == first


def test_a_role_that_is_gone_is_forgotten():
    feed = Feed()
    _fed(feed, 2, **CHAT)
    assert with_mixes(feed.mixes, scaling.Observation(now=feed.now, roles=())) == {}

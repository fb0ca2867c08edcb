"""What a client may send, and what it is told when it may not."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from controller.embedded.engine.completions import Answer, BadRequest, Completion, parse_completion
from controller.embedded.engine.receiver import KvSource


def parse(body: object) -> Completion:
    return parse_completion(
        body if isinstance(body, bytes) else orjson.dumps(body), model_name="served", max_model_len=1000
    )


@pytest.mark.parametrize(
    ("body", "prompt", "output"),
    [
        pytest.param({"prompt": "abcdefgh"}, 2, 16, id="a text of eight bytes"),
        pytest.param({"prompt": "abcdefghi", "max_tokens": 3}, 3, 3, id="a text of nine bytes"),
        pytest.param({"prompt": ["abcd"]}, 1, 16, id="a list with one text"),
        pytest.param({"prompt": [1, 5, 9], "model": "served", "n": 1}, 3, 16, id="token ids"),
        pytest.param({"prompt": [[1, 5, 9]]}, 3, 16, id="a list with one list of token ids"),
        pytest.param({"prompt_tokens": 900, "max_tokens": 100}, 900, 100, id="a number of prompt tokens"),
        pytest.param({"prompt": "x", "temperature": 0, "stop": None, "user": "u"}, 1, 16, id="other parameters"),
    ],
)
def test_lengths_of_a_request(body: dict[str, Any], prompt: int, output: int) -> None:
    completion = parse(body)
    assert (completion.prompt_tokens, completion.output_tokens) == (prompt, output)
    assert not completion.stream


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        pytest.param(b"{", 400, "not a completion request", id="no JSON"),
        pytest.param([], 400, "not a completion request", id="a list"),
        pytest.param({}, 400, "prompt:", id="no prompt"),
        pytest.param({"prompt": ""}, 400, "prompt:", id="an empty prompt"),
        pytest.param({"prompt": []}, 400, "prompt:", id="an empty list"),
        pytest.param({"prompt": ["a", "b"]}, 400, "one by one", id="two prompts"),
        pytest.param({"prompt": [True]}, 400, "prompt:", id="a boolean for a token"),
        pytest.param({"prompt": [[]]}, 400, "prompt:", id="an empty list in a list"),
        pytest.param({"prompt": "a", "prompt_tokens": 3}, 400, "one or the other", id="a prompt and a count"),
        pytest.param({"prompt_tokens": 0}, 400, "at least 1", id="a count of zero"),
        pytest.param({"prompt": "a", "max_tokens": 0}, 400, "max_tokens", id="no output"),
        pytest.param({"prompt": "a", "max_tokens": "9"}, 400, "max_tokens", id="a text for a number"),
        pytest.param({"prompt": "a", "n": 2}, 400, "n:", id="two answers"),
        pytest.param({"prompt_tokens": 999, "max_tokens": 2}, 400, "maximum context length", id="too long"),
        pytest.param({"prompt": "a", "mm_items": [5, 0]}, 400, "mm_items", id="an item without tokens"),
        pytest.param(
            {"prompt_tokens": 500, "mm_items": [500], "max_tokens": 1},
            400,
            "context length",
            id="too long by its media",
        ),
        pytest.param(
            {"prompt": "a", "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "127.0.0.2"}},
            400,
            "remote_port",
            id="blocks somewhere",
        ),
        pytest.param({"prompt": "a", "bootstrap_room": 5}, 400, "bootstrap_host", id="a room without an address"),
        pytest.param({"prompt": "a", "model": "other"}, 404, "does not exist", id="another model"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(body: object, status: int, said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(body)
    assert refused.value.status == status
    error = orjson.loads(refused.value.body())["error"]
    assert said in error["message"]
    assert error["code"] == status


def events(stream: bytes) -> list[Any]:
    assert stream.endswith(b"\n\n")
    lines = stream.decode().strip().split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    return [line[6:] if line == "data: [DONE]" else orjson.loads(line[6:]) for line in lines]


@pytest.mark.parametrize("continuous", [True, False], ids=["usage in every frame", "no usage in frames"])
@pytest.mark.parametrize("final", [True, False], ids=["usage at the end", "no usage at the end"])
def test_a_stream_brings_all_tokens_in_frames_and_usage_where_it_was_asked_for(continuous: bool, final: bool) -> None:
    answer = Answer(Completion(7, 20, True, final, continuous), "cmpl-1", 'odd"name', 1.9)
    stream = events(answer.frame(1, False) + answer.frame(17, False) + answer.frame(20, True) + answer.end())
    chunks = [chunk for chunk in stream[:-1] if chunk["choices"]]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == " tok" * 20
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
    assert all(chunk["id"] == "cmpl-1" and chunk["model"] == 'odd"name' and chunk["created"] == 1 for chunk in chunks)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks if "usage" in chunk]
    assert counts == ([1, 17, 20] if continuous else [])
    assert stream[-1] == "[DONE]"
    usage = {"prompt_tokens": 7, "completion_tokens": 20, "total_tokens": 27}
    assert [chunk["usage"] for chunk in stream[:-1] if not chunk["choices"]] == ([usage] if final else [])


def test_a_whole_answer_has_its_text_and_usage() -> None:
    body = orjson.loads(Answer(Completion(7, 3, False, False, False), "cmpl-1", "m", 1.0).whole())
    assert body["choices"][0]["text"] == " tok tok tok"
    assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@pytest.mark.parametrize(
    ("changes", "source", "room", "keep"),
    [
        pytest.param({}, None, None, False, id="a request for one process"),
        pytest.param({"kv_transfer_params": None}, None, None, False, id="nothing to hand over"),
        pytest.param(
            {"kv_transfer_params": {"do_remote_decode": True, "remote_host": None, "remote_engine_id": "x"}},
            None,
            None,
            True,
            id="to a prefill process of vLLM, with what is not ours",
        ),
        pytest.param(
            {
                "kv_transfer_params": {
                    "do_remote_prefill": True,
                    "remote_request_id": "r",
                    "remote_host": "127.0.0.2",
                    "remote_port": 8000,
                }
            },
            KvSource("http://127.0.0.2:8000", "r"),
            None,
            False,
            id="to a decode process of vLLM",
        ),
        pytest.param(
            {"bootstrap_host": "127.0.0.2", "bootstrap_port": 8000, "bootstrap_room": 7},
            KvSource("http://127.0.0.2:8000", "7"),
            "7",
            False,
            id="to either process of SGLang",
        ),
    ],
)
def test_what_is_handed_over(changes: dict[str, Any], source: KvSource | None, room: str | None, keep: bool) -> None:
    completion = parse({"prompt_tokens": 10, "mm_items": [7, 3]} | changes)
    assert (completion.source, completion.room, completion.keep) == (source, room, keep)
    assert (completion.prompt_tokens, completion.encoder_tokens) == (20, 10)

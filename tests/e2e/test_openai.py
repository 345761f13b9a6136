"""The unmodified openai client against the gateway."""
import json
import time
import urllib.request

import openai
import pytest

QUESTION = "How often must the Halvorsen P-200 pump be greased?"


@pytest.fixture(scope="module")
def ai(server):
    return openai.OpenAI(base_url=server.http + "/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def model(ai):
    return next(m.id for m in ai.models.list() if m.id.startswith("qwen"))


def metric(server, name):
    """Sum of a metric over its labels."""
    total = 0.0
    for line in urllib.request.urlopen(server.http + "/metrics").read().decode().splitlines():
        if line.startswith(name) and line[len(name)] in " {":
            total += float(line.rsplit(" ", 1)[1])
    return total


def test_models(ai, model):
    assert ai.models.retrieve(model).id == model
    with pytest.raises(openai.NotFoundError):
        ai.models.retrieve("no-such-model")


def test_chat(ai, model):
    reply = ai.chat.completions.create(model=model, temperature=0, max_tokens=20,
                                       messages=[{"role": "user", "content": "Say the word apple."}])
    assert "apple" in reply.choices[0].message.content.lower()
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens > 0


def test_stream_equals_plain(ai, model):
    ask = dict(model=model, temperature=0, max_tokens=24, messages=[{"role": "user", "content": "数到五。"}])
    plain = ai.chat.completions.create(**ask)
    text, finish, usage = "", None, None
    for chunk in ai.chat.completions.create(stream=True, stream_options={"include_usage": True}, **ask):
        if chunk.usage:
            assert chunk.choices == []
            usage = chunk.usage
            continue
        text += chunk.choices[0].delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
    assert text == plain.choices[0].message.content
    assert finish == plain.choices[0].finish_reason
    assert usage.completion_tokens == plain.usage.completion_tokens


def test_stop_and_length(ai, model):
    messages = [{"role": "user", "content": "Count from 1 to 20, separated by commas."}]
    reply = ai.chat.completions.create(model=model, temperature=0, max_tokens=60, stop=["5"], messages=messages)
    assert "5" not in reply.choices[0].message.content and reply.choices[0].finish_reason == "stop"
    reply = ai.chat.completions.create(model=model, temperature=0, max_tokens=3, messages=messages)
    assert reply.choices[0].finish_reason == "length" and reply.usage.completion_tokens == 3


def test_penalties_and_biases(ai, model):
    # Token 0 of Qwen is "!": with the largest bias it is all that comes, until its repetitions have cost more than the bias.
    ask = dict(model=model, temperature=0, max_tokens=64, logit_bias={"0": 100}, messages=[{"role": "user", "content": "Hello."}])
    assert ai.chat.completions.create(**ask).choices[0].message.content == "!" * 64
    text = ai.chat.completions.create(frequency_penalty=2, presence_penalty=2, **ask).choices[0].message.content
    assert text.startswith("!" * 20) and text != "!" * 64


def test_a_second_turn_reuses_the_first(ai, model):
    messages = [{"role": "user", "content": "Name three colours of autumn leaves, with a short reason for each of them."}]
    ask = dict(model=model, temperature=0, max_tokens=24)
    first = ai.chat.completions.create(messages=messages, **ask)
    messages += [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "And in spring?"}]
    second = ai.chat.completions.create(messages=messages, **ask)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens // 16 * 16


@pytest.mark.parametrize("stream", [False, True])
def test_answers_from_a_collection_cite_bytes(ai, model, stream):
    from conftest import SMALL_DOCUMENTS
    ask = dict(model=model, messages=[{"role": "user", "content": QUESTION}], extra_body={"collection": "small"})
    if stream:
        text, citations = "", None
        for chunk in ai.chat.completions.create(stream=True, **ask):
            delta = chunk.choices[0].delta
            text += delta.content or ""
            citations = getattr(delta, "citations", None) or citations
    else:
        message = ai.chat.completions.create(**ask).choices[0].message
        text, citations = message.content, message.citations
    assert "450" in text and f"[{citations[0]['number']}]" in text
    for citation in citations:
        source = SMALL_DOCUMENTS[citation["document_id"]].encode()
        assert source[citation["span"]["begin"]:citation["span"]["end"]].decode() == citation["quote"]
    assert "manual.md" in [c["document_id"] for c in citations]


@pytest.mark.parametrize("bad, field", [
    (dict(messages=[]), "messages"),
    (dict(temperature=9), "temperature"),
    (dict(n=3), "n"),
    (dict(stop=["x"] * 50), "stop"),
    (dict(max_tokens=-1), "max_tokens"),
])
def test_bad_requests_name_the_field(ai, model, bad, field):
    ask = dict(model=model, messages=[{"role": "user", "content": "x"}])
    with pytest.raises(openai.BadRequestError) as error:
        ai.chat.completions.create(**{**ask, **bad})
    assert field in error.value.message


def test_errors(ai, model, server):
    messages = [{"role": "user", "content": "x"}]
    with pytest.raises(openai.NotFoundError):
        ai.chat.completions.create(model="no-such-model", messages=messages)
    with pytest.raises(openai.NotFoundError):
        ai.chat.completions.create(model=model, messages=messages, extra_body={"collection": "no-such-collection"})
    with pytest.raises(openai.BadRequestError) as error:
        ai.chat.completions.create(model=model, messages=[{"role": "user", "content": "word " * 20000}])
    assert error.value.code == "context_length_exceeded"


def test_abort_stops_the_engine(ai, model, server):
    stream = ai.chat.completions.create(model=model, stream=True, max_tokens=4000, temperature=0,
                                        messages=[{"role": "user", "content": "Count from 1 to 2000, one number a line."}])
    next(iter(stream))
    assert metric(server, "cairn_engine_running") >= 1
    stream.close()
    end = time.time() + 1
    while metric(server, "cairn_engine_running") > 0:
        assert time.time() < end, "the engine still works a second after the client left"
        time.sleep(0.05)


def test_embeddings(ai):
    one = ai.embeddings.create(model="multilingual-e5-small", input=["red apple", "rotes Obst", "tax law"],
                               extra_body={"input_type": "passage"})
    vectors = [e.embedding for e in one.data]
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert abs(dot(vectors[0], vectors[0]) - 1) < 1e-3
    assert dot(vectors[0], vectors[1]) > dot(vectors[0], vectors[2])
    assert one.usage.total_tokens > 0


def test_plain_pages(server):
    for path in ("/healthz", "/readyz", "/metrics"):
        assert urllib.request.urlopen(server.http + path).status == 200
    request = urllib.request.Request(server.http + "/v1/chat/completions", data=json.dumps({}).encode(),
                                     headers={"Content-Type": "text/plain"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)
    assert error.value.code == 415

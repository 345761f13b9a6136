"""The server seen by third-party clients: grpcio, grpcio-reflection, grpcurl. Put, search, ask, cancel, health, reflection."""
import hashlib
import json
import pathlib
import subprocess
import sys
import time
import urllib.request

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

ROLES = ["cairn.inference.v1.InferenceService", "cairn.ingest.v1.IngestService", "cairn.retrieval.v1.RetrievalService",
         "cairn.agent.v1.AgentService"]


def metric(server, name, **labels):
    """Sum of a metric over the label sets that match."""
    total = 0.0
    for line in urllib.request.urlopen(server.http + "/metrics").read().decode().splitlines():
        if line.startswith(name) and line[len(name)] in " {" and all(f'{k}="{v}"' in line for k, v in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def idle_within(server, seconds, *metrics):
    """Seconds until all metrics are 0; fails after `seconds`."""
    start = time.time()
    while True:
        values = {str(m): metric(server, m[0], **m[1]) for m in metrics}
        if not any(values.values()):
            return time.time() - start
        assert time.time() - start < seconds, values
        time.sleep(0.02)


def test_put_search_replace_delete(client):
    pb, ret = client.s.ingest, client.s.retrieval
    text = "# Bells\n\nThe great bell of Novgorod weighs 25 tonnes.\n".encode()
    job = client.wait(client.put("life", "bells.md", text, sha256=hashlib.sha256(text).hexdigest()))
    assert (job.state, job.outcome) == (pb.JOB_STATE_SUCCEEDED, pb.JOB_OUTCOME_CREATED), job
    again = client.wait(client.put("life", "bells.md", text))
    assert again.outcome == pb.JOB_OUTCOME_UNCHANGED

    hit = client.retrieval.Search(ret.SearchRequest(collection="life", query="How heavy is the bell?", explain=True)).hits[0]
    assert hit.chunk.document_id == "bells.md" and hit.chunk.version == 1
    assert text[hit.chunk.span.begin:hit.chunk.span.end] == (hit.chunk.source or hit.chunk.text.encode())
    assert hit.explanation.value == pytest.approx(hit.score)
    chunk = client.retrieval.GetChunk(ret.GetChunkRequest(collection="life", chunk_id=hit.chunk.chunk_id)).chunk
    assert chunk.text == hit.chunk.text

    changed = text.replace(b"25", b"26")
    job = client.wait(client.put("life", "bells.md", changed))
    assert job.outcome == pb.JOB_OUTCOME_REPLACED
    document = client.retrieval.GetDocument(ret.GetDocumentRequest(collection="life", document_id="bells.md")).document
    assert (document.version, document.sha256) == (2, hashlib.sha256(changed).hexdigest())
    assert client.retrieval.ReadSource(ret.ReadSourceRequest(collection="life", document_id="bells.md")).data == changed
    hits = client.retrieval.Search(ret.SearchRequest(collection="life", query="bell Novgorod")).hits
    assert [h.chunk.version for h in hits if h.chunk.document_id == "bells.md"] == [2] * len(hits)

    client.ingest.DeleteDocument(pb.DeleteDocumentRequest(collection="life", document_id="bells.md"))
    assert not client.retrieval.Search(ret.SearchRequest(collection="life", query="bell Novgorod")).hits
    assert not client.retrieval.ListDocuments(ret.ListDocumentsRequest(collection="life")).documents


def test_metadata_filter(client):
    pb, common, ret = client.s.ingest, client.s.common, client.s.retrieval
    for name, year, kind in [("a.txt", 1998, "report"), ("b.txt", 2010, "report"), ("c.txt", 2020, "letter")]:
        metadata = {"year": common.MetadataValue(int_value=year), "kind": common.MetadataValue(string_value=kind)}
        job = client.wait(client.put("meta", name, f"The bridge was inspected, says {name}.".encode(), metadata=metadata))
        assert job.state == pb.JOB_STATE_SUCCEEDED

    def found(*conditions):
        request = ret.SearchRequest(collection="meta", query="bridge", filter=common.Filter(conditions=conditions))
        return {hit.chunk.document_id for hit in client.retrieval.Search(request).hits}

    year, kind = (common.Condition(key="year", range=common.ValueRange(low=2000, high=2015)),
                  common.Condition(key="kind", equals=common.MetadataValue(string_value="report")))
    assert found() == {"a.txt", "b.txt", "c.txt"}
    assert found(kind) == {"a.txt", "b.txt"}
    assert found(year) == {"b.txt"}
    assert found(kind, year) == {"b.txt"}
    assert found(common.Condition(key="nosuch", equals=common.MetadataValue(bool_value=True))) == set()


def test_chunk_size_is_the_callers(client):
    text = ("The bridge has " + " spans. The bridge has ".join(map(str, range(200))) + " spans.").encode()
    counts = {}
    for tokens in (0, 32, 400):
        job = client.wait(client.put("chunks", f"{tokens}.txt", text, chunk_tokens=tokens))
        assert job.state == client.s.ingest.JOB_STATE_SUCCEEDED
        counts[tokens] = job.chunks_total
    assert counts[32] > counts[0] > counts[400] > 1


def test_collection_of_words_alone(client):
    ret = client.s.retrieval
    collection = client.retrieval.CreateCollection(ret.CreateCollectionRequest(name="words", lexical_only=True)).collection
    assert collection.dimension == 0
    job = client.wait(client.put("words", "a.txt", b"The ferry leaves at noon."))
    assert job.state == client.s.ingest.JOB_STATE_SUCCEEDED, job

    def search(mode):
        return client.retrieval.Search(ret.SearchRequest(collection="words", query="ferry", mode=mode))

    plain = search(ret.SEARCH_MODE_UNSPECIFIED)
    assert plain.hits[0].chunk.document_id == "a.txt" and not plain.degraded
    assert any("LEXICAL_COLLECTION" in stage for stage in search(ret.SEARCH_MODE_HYBRID).degraded)
    with pytest.raises(grpc.RpcError) as caught:
        search(ret.SEARCH_MODE_VECTOR)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION


def test_ask_in_both_languages(client):
    for question, expected, document in [("How often must the Halvorsen P-200 pump be greased?", "450", "manual.md"),
                                         ("龙井茶应当冲泡多久?", "三分钟", "shougong.md")]:
        sources, text, sentences, completed = client.ask("small", question)
        assert text == completed.answer and expected in text, text
        assert list(completed.sentences) == sentences and not completed.abstained
        assert sources[0].document_id == document
        source = client.retrieval.ReadSource(client.s.retrieval.ReadSourceRequest(collection="small", document_id=document)).data
        citations = [c for sentence in sentences for c in sentence.citations]
        assert citations
        for citation in citations:
            assert source[citation.span.begin:citation.span.end] == citation.quote
        assert completed.usage.completion_tokens > 0 and completed.timings


def test_ask_outside_the_documents_abstains(client):
    _, text, sentences, completed = client.ask("small", "Who won the football world cup in 1974?")
    assert completed.abstained and completed.abstain_reason
    assert text == completed.answer and not any(s.citations for s in sentences)


def test_session_continues(client):
    _, _, _, first = client.ask("small", "How often must the Halvorsen P-200 pump be greased?", new_session=True)
    assert first.session_id
    client.ask("small", "Which grease?", session_id=first.session_id)
    messages = client.agent.GetSession(client.s.agent.GetSessionRequest(session_id=first.session_id)).messages
    assert [m.role for m in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[1].content == first.answer


def busy(server):
    return metric(server, "cairn_engine_running") + metric(server, "cairn_engine_queued")


def wait_busy(server):
    end = time.time() + 30
    while busy(server) == 0:
        assert time.time() < end, "the engine never began"
        time.sleep(0.01)


def test_cancelled_generation_leaves_the_engine_idle(client, server):
    pb = client.s.inference
    call = client.inference.Generate(pb.GenerateRequest(
        chat=pb.Chat(messages=[pb.ChatMessage(role=pb.CHAT_ROLE_USER, content="Count from 1 to 5000, one number a line.")]),
        max_tokens=4000))
    next(call)
    wait_busy(server)
    call.cancel()
    idle_within(server, 1.0, ("cairn_engine_running", {}), ("cairn_engine_queued", {}),
                ("cairn_rpc_in_flight", {"method": "cairn.inference.v1.InferenceService/Generate"}))


def test_cancelled_ask_leaves_the_server_idle(client, server):
    call = client.agent.Ask(client.s.agent.AskRequest(collection="small", question="Describe all the maintenance of the pump."))
    wait_busy(server)
    call.cancel()
    idle_within(server, 1.0, ("cairn_engine_running", {}), ("cairn_engine_queued", {}),
                ("cairn_rpc_in_flight", {"method": "cairn.agent.v1.AgentService/Ask"}),
                ("cairn_rpc_in_flight", {"method": "cairn.inference.v1.InferenceService/Generate"}))


def test_deadline_ends_the_work(client, server):
    pb = client.s.inference
    with pytest.raises(grpc.RpcError) as caught:
        list(client.inference.Generate(pb.GenerateRequest(prompt="1 2 3 4", max_tokens=4000), timeout=1.0))
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    idle_within(server, 1.0, ("cairn_engine_running", {}), ("cairn_engine_queued", {}))


def test_reader_that_stops_reading_does_not_hold_others(client, server):
    pb = client.s.inference
    stalled = client.inference.Generate(pb.GenerateRequest(prompt="1 2 3", max_tokens=50))
    next(stalled)  # and no more
    reply = list(client.inference.Generate(pb.GenerateRequest(prompt="1 2 3", max_tokens=5)))
    assert reply[-1].HasField("completed")
    stalled.cancel()


def test_same_seed_same_text(client):
    pb = client.s.inference

    def text(seed):
        request = pb.GenerateRequest(prompt="Once upon a time", max_tokens=24,
                                     sampling=pb.SamplingParams(temperature=1.0, seed=seed))
        return "".join(event.text_delta.text for event in client.inference.Generate(request))

    assert text(7) == text(7)
    assert len({text(seed) for seed in range(1, 6)}) > 1


def health(channel, method, name):
    request = b"\x0a" + bytes([len(name)]) + name.encode() if name else b""
    if method == "Check":
        return channel.unary_unary("/grpc.health.v1.Health/Check", lambda b: b, lambda b: b)(request)
    return channel.unary_stream("/grpc.health.v1.Health/Watch", lambda b: b, lambda b: b)(request)


def test_choices_stops_and_prompt_logprobs(client):
    pb = client.s.inference
    def generate(**fields):
        sampling = pb.SamplingParams(temperature=1, seed=5)
        return list(client.inference.Generate(pb.GenerateRequest(prompt="One two three four five six", sampling=sampling, max_tokens=12, ignore_eos=True, **fields)))
    def text(events, choice=0):
        return "".join(e.text_delta.text for e in events if e.HasField("text_delta") and e.text_delta.choice == choice)
    events = generate(n=3, top_logprobs=0)
    last = [e.completed for e in events[-3:]]
    assert [c.choice for c in last] == [0, 1, 2] and all(c.usage.completion_tokens == 12 for c in last)
    assert len({text(events, i) for i in range(3)}) > 1
    alone = generate(prompt_logprobs=True, echo=True)
    assert text(alone).endswith(text(events, 0)) and text(alone).startswith("One two three four five six")
    assert len(alone[-1].completed.prompt_logprobs) == alone[-1].completed.usage.prompt_tokens - 1
    assert all(p.logprob <= 0 for p in alone[-1].completed.prompt_logprobs)
    whole = text(events, 0)
    stop = whole[3:6]
    assert text(generate(stop=[stop], include_stop=True)) == whole[:whole.index(stop) + len(stop)]
    assert text(generate(no_prompt_lookup=True)) == whole


def test_health(client):
    serving = b"\x08\x01"
    for name in ["", *ROLES, "cairn.model.generator", "cairn.model.embedder"]:
        assert health(client.channel, "Check", name) == serving, name
    with pytest.raises(grpc.RpcError) as caught:
        health(client.channel, "Check", "no.such.Service")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    watch = health(client.channel, "Watch", ROLES[0])
    assert next(watch) == serving
    watch.cancel()
    unknown = health(client.channel, "Watch", "no.such.Service")
    assert next(unknown) == b"\x08\x03"  # SERVICE_UNKNOWN
    unknown.cancel()


def test_reflection_v1alpha_by_grpcio(client):
    database = ProtoReflectionDescriptorDatabase(client.channel)
    assert set(ROLES) | {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                         "grpc.reflection.v1alpha.ServerReflection"} == set(database.get_services())
    for name in database.get_services():
        assert database.FindFileContainingSymbol(name).service
    with pytest.raises(KeyError):
        database.FindFileContainingSymbol("no.such.Service")


def test_reflection_v1(client):
    """The messages of v1 and v1alpha are the same on the wire."""
    call = client.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                                        reflection_pb2.ServerReflectionRequest.SerializeToString,
                                        reflection_pb2.ServerReflectionResponse.FromString)
    request = reflection_pb2.ServerReflectionRequest
    answers = list(call(iter([request(list_services=""), request(file_containing_symbol=ROLES[3] + ".Ask"),
                              request(file_by_filename="cairn/common/v1/common.proto"), request(file_by_filename="nope"),
                              request()])))
    assert {s.name for s in answers[0].list_services_response.service} >= set(ROLES)
    assert len(answers[1].file_descriptor_response.file_descriptor_proto) >= 2  # with what it imports
    assert len(answers[2].file_descriptor_response.file_descriptor_proto) >= 2
    assert answers[3].error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert answers[4].error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


def grpcurl(*arguments):
    program = pathlib.Path(sys.executable).parent / "grpcurl"
    if not program.exists():
        pytest.skip(f"no {program}")
    return subprocess.run([program, "-plaintext", *arguments], check=True, capture_output=True, text=True).stdout


def test_grpcurl(server):
    assert set(ROLES) <= set(grpcurl(server.address, "list").split())
    assert "rpc Ask" in grpcurl(server.address, "describe", ROLES[3])
    models = json.loads(grpcurl(server.address, ROLES[0] + "/ListModels"))["models"]
    assert any(model.get("ready") for model in models)
    answer = grpcurl("-d", '{"service": "%s"}' % ROLES[1], server.address, "grpc.health.v1.Health/Check")
    assert json.loads(answer)["status"] == "SERVING"


def test_one_server_per_data_directory(server):
    from cairn_client import binary
    store = pathlib.Path(server.log_path).parent / "store"
    second = subprocess.run([binary(), "serve", "--data", store, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"],
                            capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and str(server.process.pid) in second.stderr, second.stderr

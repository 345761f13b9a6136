"""Hostile and broken requests: each gets the right status code, names the field at fault where there is one, and leaves the
server serving."""
import struct

import grpc
import pytest

from cairn_client import Client, Server
from conftest import require_models

INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
HUGE = "x" * (1 << 20)


class Pb:
    """Short names for the messages of the contracts."""

    def __init__(self, client):
        s = client.s
        self.common, self.inf, self.ing, self.ret, self.ag = s.common, s.inference, s.ingest, s.retrieval, s.agent

    def equals(self, key, **value):
        return self.common.Filter(conditions=[self.common.Condition(key=key, equals=self.common.MetadataValue(**value))])


def search(**fields):
    return lambda c, pb: c.retrieval.Search(pb.ret.SearchRequest(**{"collection": "small", "query": "pump", **fields}))


def ask(**fields):
    return lambda c, pb: list(c.agent.Ask(pb.ag.AskRequest(**{"collection": "small", "question": "How often?", **fields})))


def generate(chat=("hi",), **fields):
    def call(c, pb):
        messages = [pb.inf.ChatMessage(role=pb.inf.CHAT_ROLE_USER, content=text) for text in chat]
        return list(c.inference.Generate(pb.inf.GenerateRequest(**{"chat": pb.inf.Chat(messages=messages), "max_tokens": 1, **fields})))
    return call


def sampling(**fields):
    return lambda c, pb: generate(sampling=pb.inf.SamplingParams(**fields))(c, pb)


def embed(texts, kind=1, **fields):
    return lambda c, pb: c.inference.Embed(pb.inf.EmbedRequest(texts=texts, kind=kind, **fields))


def put(parts):
    """`parts(pb)` gives the messages of one PutDocument stream."""
    return lambda c, pb: c.ingest.PutDocument(iter(parts(pb)))


def header(**fields):
    return put(lambda pb: [pb.ing.PutDocumentRequest(header=pb.ing.PutDocumentHeader(**{"collection": "small", "document_id": "x", **fields})),
                           pb.ing.PutDocumentRequest(data=b"text")])


def filtered(make):
    return lambda c, pb: search(filter=make(pb))(c, pb)


def conditions(make, count=1):
    return filtered(lambda pb: pb.common.Filter(conditions=[make(pb)] * count))


NAN, INF = float("nan"), float("inf")

# Name, call, status code, field at fault ("" when the error names none).
CASES = [
    ("search: blank query", search(query=" \t\n"), INVALID, "query"),
    ("search: empty query", search(query=""), INVALID, "query"),
    ("search: query of 1 MiB", search(query=HUGE), INVALID, "query"),
    ("search: negative top_k", search(top_k=-1), INVALID, "top_k"),
    ("search: top_k of 2^31 - 1", search(top_k=2**31 - 1), INVALID, "top_k"),
    ("search: candidates below top_k", search(top_k=50, candidates=10), INVALID, "candidates"),
    ("search: negative candidates", search(candidates=-5), INVALID, "candidates"),
    ("search: unknown mode", search(mode=99), INVALID, "mode"),
    ("search: unknown rerank mode", search(rerank=77), INVALID, "rerank"),
    ("search: vector weight is NaN", lambda c, pb: search(fusion=pb.ret.Fusion(convex=pb.ret.ConvexFusion(vector_weight=NAN)))(c, pb), INVALID, "fusion.convex.vector_weight"),
    ("search: vector weight of 2", lambda c, pb: search(fusion=pb.ret.Fusion(convex=pb.ret.ConvexFusion(vector_weight=2)))(c, pb), INVALID, "fusion.convex.vector_weight"),
    ("search: negative k of RRF", lambda c, pb: search(fusion=pb.ret.Fusion(rrf=pb.ret.RrfFusion(k=-1)))(c, pb), INVALID, "fusion.rrf.k"),
    ("search: no such collection", search(collection="nowhere"), NOT_FOUND, ""),
    ("search: collection is a path", search(collection="../../etc"), INVALID, "collection"),
    ("search: collection with NUL", search(collection="a\0b"), INVALID, "collection"),
    ("search: collection of 1 MiB", search(collection="a" * (1 << 20)), INVALID, "collection"),
    ("filter: 33 conditions", conditions(lambda pb: pb.common.Condition(key="a", equals=pb.common.MetadataValue(int_value=1)), 33), INVALID, "filter.conditions"),
    ("filter: empty key", conditions(lambda pb: pb.common.Condition(key="", equals=pb.common.MetadataValue(int_value=1))), INVALID, "filter.conditions[0].key"),
    ("filter: condition without test", conditions(lambda pb: pb.common.Condition(key="a")), INVALID, "filter.conditions[0]"),
    ("filter: equals without value", conditions(lambda pb: pb.common.Condition(key="a", equals=pb.common.MetadataValue())), INVALID, "filter.conditions[0].equals"),
    ("filter: in without values", conditions(lambda pb: pb.common.Condition(key="a", **{"in": pb.common.ValueList()})), INVALID, "filter.conditions[0].in.values"),
    ("filter: range without bounds", conditions(lambda pb: pb.common.Condition(key="a", range=pb.common.ValueRange())), INVALID, "filter.conditions[0].range"),
    ("filter: range of NaN", conditions(lambda pb: pb.common.Condition(key="a", range=pb.common.ValueRange(low=NAN))), INVALID, "filter.conditions[0].range"),
    ("filter: infinite number", conditions(lambda pb: pb.common.Condition(key="a", equals=pb.common.MetadataValue(double_value=INF))), INVALID, "filter.conditions[0].equals"),
    ("chunk: empty id", lambda c, pb: c.retrieval.GetChunk(pb.ret.GetChunkRequest(collection="small")), INVALID, "chunk_id"),
    ("chunk: unknown id", lambda c, pb: c.retrieval.GetChunk(pb.ret.GetChunkRequest(collection="small", chunk_id="nope")), NOT_FOUND, ""),
    ("document: unknown id", lambda c, pb: c.retrieval.GetDocument(pb.ret.GetDocumentRequest(collection="small", document_id="nope")), NOT_FOUND, ""),
    ("document: id of 513 bytes", lambda c, pb: c.retrieval.GetDocument(pb.ret.GetDocumentRequest(collection="small", document_id="x" * 513)), INVALID, "document_id"),
    ("source: span beyond the end", lambda c, pb: c.retrieval.ReadSource(pb.ret.ReadSourceRequest(collection="small", document_id="manual.md", span=pb.common.ByteSpan(begin=0, end=10**6))), INVALID, "span"),
    ("source: span backwards", lambda c, pb: c.retrieval.ReadSource(pb.ret.ReadSourceRequest(collection="small", document_id="manual.md", span=pb.common.ByteSpan(begin=9, end=3))), INVALID, "span"),
    ("source: span to 2^64 - 1", lambda c, pb: c.retrieval.ReadSource(pb.ret.ReadSourceRequest(collection="small", document_id="manual.md", span=pb.common.ByteSpan(begin=0, end=2**64 - 1))), INVALID, "span"),
    ("source: a version that never was", lambda c, pb: c.retrieval.ReadSource(pb.ret.ReadSourceRequest(collection="small", document_id="manual.md", version=999)), NOT_FOUND, ""),
    ("documents: page of -1", lambda c, pb: c.retrieval.ListDocuments(pb.ret.ListDocumentsRequest(collection="small", page_size=-1)), INVALID, "page_size"),
    ("documents: page of 1001", lambda c, pb: c.retrieval.ListDocuments(pb.ret.ListDocumentsRequest(collection="small", page_size=1001)), INVALID, "page_size"),
    ("collection: created without name", lambda c, pb: c.retrieval.CreateCollection(pb.ret.CreateCollectionRequest()), INVALID, "name"),
    ("collection: name in upper case", lambda c, pb: c.retrieval.CreateCollection(pb.ret.CreateCollectionRequest(name="Big")), INVALID, "name"),
    ("collection: created twice", lambda c, pb: c.retrieval.CreateCollection(pb.ret.CreateCollectionRequest(name="small")), grpc.StatusCode.ALREADY_EXISTS, ""),
    ("collection: delete an unknown one", lambda c, pb: c.retrieval.DeleteCollection(pb.ret.DeleteCollectionRequest(name="nowhere")), NOT_FOUND, ""),
    ("commit: nothing sent", lambda c, pb: c.retrieval.CommitDocument(iter([])), INVALID, "header"),
    ("commit: chunk before header", lambda c, pb: c.retrieval.CommitDocument(iter([pb.ret.CommitDocumentRequest(chunk=pb.ret.ChunkWithVector())])), INVALID, "header"),
    ("commit: vector of NaN", lambda c, pb: c.retrieval.CommitDocument(iter([
        pb.ret.CommitDocumentRequest(header=pb.ret.CommitHeader(document=pb.ret.Document(document_id="x", collection="small"))),
        pb.ret.CommitDocumentRequest(chunk=pb.ret.ChunkWithVector(chunk=pb.ret.Chunk(chunk_id="c", text="t"), vector=[NAN] * 384))])), INVALID, "chunk[0].vector"),
    ("put: nothing sent", put(lambda pb: []), INVALID, "header"),
    ("put: data before header", put(lambda pb: [pb.ing.PutDocumentRequest(data=b"x")]), INVALID, "header"),
    ("put: two headers", put(lambda pb: [pb.ing.PutDocumentRequest(header=pb.ing.PutDocumentHeader(document_id="x"))] * 2), INVALID, "header"),
    ("put: part not set", put(lambda pb: [pb.ing.PutDocumentRequest()]), INVALID, "part"),
    ("put: empty id", header(document_id=""), INVALID, "header.document_id"),
    ("put: id with a line break", header(document_id="a\nb"), INVALID, "header.document_id"),
    ("put: id with NUL", header(document_id="a\0b"), INVALID, "header.document_id"),
    ("put: id of 1 MiB", header(document_id=HUGE), INVALID, "header.document_id"),
    ("put: collection is a path", header(collection="../data"), INVALID, "header.collection"),
    ("put: wrong sha256", header(sha256="0" * 64), INVALID, "header.sha256"),
    ("put: sha256 is no hex", header(sha256="z" * 64), INVALID, "header.sha256"),
    ("put: 65 metadata entries", lambda c, pb: header(metadata={f"k{i}": pb.common.MetadataValue(int_value=i) for i in range(65)})(c, pb), INVALID, "header.metadata"),
    ("put: metadata without value", lambda c, pb: header(metadata={"k": pb.common.MetadataValue()})(c, pb), INVALID, "header.metadata"),
    ("put: chunks of -1 tokens", header(chunk_tokens=-1), INVALID, "header.chunk_tokens"),
    ("put: unknown media type", header(media_type="application/x-nonsense"), INVALID, None),
    ("job: unknown id", lambda c, pb: c.ingest.GetJob(pb.ing.GetJobRequest(job_id="nope")), NOT_FOUND, ""),
    ("job: empty id", lambda c, pb: c.ingest.GetJob(pb.ing.GetJobRequest()), INVALID, "job_id"),
    ("job: watch an unknown one", lambda c, pb: list(c.ingest.WatchJob(pb.ing.WatchJobRequest(job_id="../../jobs"))), NOT_FOUND, ""),
    ("jobs: token of somebody else", lambda c, pb: c.ingest.ListJobs(pb.ing.ListJobsRequest(page_token="-5")), INVALID, "page_token"),
    ("delete: unknown document", lambda c, pb: c.ingest.DeleteDocument(pb.ing.DeleteDocumentRequest(collection="small", document_id="nope")), NOT_FOUND, ""),
    ("generate: no input", lambda c, pb: list(c.inference.Generate(pb.inf.GenerateRequest())), INVALID, "input"),
    ("generate: no messages", generate(chat=()), INVALID, "chat.messages"),
    ("generate: 257 messages", generate(chat=("x",) * 257), INVALID, "chat.messages"),
    ("generate: message without role", lambda c, pb: list(c.inference.Generate(pb.inf.GenerateRequest(chat=pb.inf.Chat(messages=[pb.inf.ChatMessage(content="hi")])))), INVALID, "chat.messages[0].role"),
    ("generate: negative max_tokens", generate(max_tokens=-1), INVALID, "max_tokens"),
    ("generate: max_tokens of 2^31 - 1", generate(max_tokens=2**31 - 1), INVALID, "max_tokens"),
    ("generate: prompt larger than the window", generate(chat=("word " * 60_000,)), grpc.StatusCode.FAILED_PRECONDITION, ""),
    ("generate: unknown model", generate(model="gpt-9"), NOT_FOUND, "model"),
    ("generate: 17 stop strings", generate(stop=["x"] * 17), INVALID, "stop"),
    ("generate: empty stop string", generate(stop=[""]), INVALID, "stop"),
    ("generate: 21 alternatives", generate(top_logprobs=21), INVALID, "top_logprobs"),
    ("generate: tools are no JSON", lambda c, pb: list(c.inference.Generate(pb.inf.GenerateRequest(max_tokens=1, chat=pb.inf.Chat(tools_json="{", messages=[pb.inf.ChatMessage(role=2, content="hi")])))), INVALID, None),
    ("generate: a thousand replies", generate(n=1000), INVALID, "n"),
    ("generate: negative min_tokens", generate(min_tokens=-1), INVALID, "min_tokens"),
    ("generate: a stop token that is none", generate(stop_tokens=[2**31 - 1]), INVALID, "stop_tokens"),
    ("sampling: typical_p of 2", sampling(typical_p=2), INVALID, "sampling.typical_p"),
    ("sampling: a banned token that is none", sampling(banned_tokens=[-1]), INVALID, "sampling.banned_tokens"),
    ("sampling: negative temperature", sampling(temperature=-1), INVALID, "sampling.temperature"),
    ("sampling: temperature is NaN", sampling(temperature=NAN), INVALID, "sampling.temperature"),
    ("sampling: top_p of 0", sampling(top_p=0), INVALID, "sampling.top_p"),
    ("sampling: negative top_k", sampling(top_k=-1), INVALID, "sampling.top_k"),
    ("sampling: min_p of 1", sampling(min_p=1), INVALID, "sampling.min_p"),
    ("sampling: penalty of 0", sampling(repetition_penalty=0), INVALID, "sampling.repetition_penalty"),
    ("embed: no texts", embed([]), INVALID, "texts"),
    ("embed: blank text", embed(["a", " "]), INVALID, "texts[1]"),
    ("embed: 1025 texts", embed(["a"] * 1025), INVALID, "texts"),
    ("embed: no kind", embed(["a"], kind=0), INVALID, "kind"),
    ("embed: unknown kind", embed(["a"], kind=9), INVALID, "kind"),
    ("embed: with the generator", embed(["a"], model="qwen2.5-coder-0.5b"), NOT_FOUND, "model"),
    ("rerank: blank query", lambda c, pb: c.inference.Rerank(pb.inf.RerankRequest(query=" ", passages=["a"])), INVALID, "query"),
    ("rerank: no passages", lambda c, pb: c.inference.Rerank(pb.inf.RerankRequest(query="a")), INVALID, "passages"),
    ("tokenize: no texts", lambda c, pb: c.inference.Tokenize(pb.inf.TokenizeRequest()), INVALID, "texts"),
    ("ask: blank question", ask(question="  "), INVALID, "question"),
    ("ask: question of 1 MiB", ask(question=HUGE), INVALID, "question"),
    ("ask: top_k of 65", ask(top_k=65), INVALID, "top_k"),
    ("ask: negative max_tokens", ask(max_tokens=-1), INVALID, "max_tokens"),
    ("ask: unknown policy", ask(policy=9), INVALID, "policy"),
    ("ask: temperature of 3", ask(temperature=3), INVALID, "temperature"),
    ("ask: no such collection", ask(collection="nowhere"), NOT_FOUND, None),
    ("ask: session of somebody else", ask(session_id="0" * 32), NOT_FOUND, None),
    ("ask: session and new session", ask(session_id="a", new_session=True), INVALID, "new_session"),
    ("session: unknown", lambda c, pb: c.agent.GetSession(pb.ag.GetSessionRequest(session_id="nope")), NOT_FOUND, ""),
    ("run: blank task", lambda c, pb: list(c.agent.Run(pb.ag.RunRequest(task=" "))), INVALID, "task"),
    ("run: 101 turns", lambda c, pb: list(c.agent.Run(pb.ag.RunRequest(task="x", limits=pb.ag.RunLimits(max_turns=101)))), INVALID, "limits.max_turns"),
    ("run: negative tokens", lambda c, pb: list(c.agent.Run(pb.ag.RunRequest(task="x", limits=pb.ag.RunLimits(max_tokens=-1)))), INVALID, "limits.max_tokens"),
    ("run: unknown id", lambda c, pb: c.agent.GetRun(pb.ag.GetRunRequest(run_id="nope")), NOT_FOUND, ""),
]


def details(error):
    """(reason, field) from the google.rpc details of an error."""
    from google.rpc import error_details_pb2, status_pb2

    reason = field = ""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
                assert info.domain == "cairn"
                reason = info.reason
            if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                field = error_details_pb2.BadRequest.FromString(detail.value).field_violations[0].field
    return reason, field


def test_there_are_enough():
    assert len(CASES) >= 40 and len({name for name, *_ in CASES}) == len(CASES)


@pytest.mark.parametrize("name,call,code,field", CASES, ids=[name for name, *_ in CASES])
def test_request(client, name, call, code, field):
    with pytest.raises(grpc.RpcError) as caught:
        call(client, Pb(client))
    assert caught.value.code() == code, caught.value.details()
    reason, at_fault = details(caught.value)
    assert reason
    if field is not None:
        assert at_fault == field
    hits = client.retrieval.Search(client.s.retrieval.SearchRequest(collection="small", query="lighthouse", mode=1)).hits
    assert hits[0].chunk.document_id == "page.html"


def raw(client, method, payload):
    return client.channel.unary_unary(method, lambda b: b, lambda b: b)(payload)


@pytest.mark.parametrize("method,payload,code", [
    # Not a message at all; a field that claims more bytes than there are; a varint without end; invalid UTF-8 in a string.
    ("/cairn.retrieval.v1.RetrievalService/Search", b"\xff" * 40, INVALID),
    ("/cairn.retrieval.v1.RetrievalService/Search", b"\x12\xff\xff\xff\xff\x07abc", INVALID),
    ("/cairn.retrieval.v1.RetrievalService/Search", b"\x18" + b"\x80" * 11, INVALID),
    ("/cairn.retrieval.v1.RetrievalService/Search", b"\x12\x02\xc3\x28", INVALID),
    ("/cairn.retrieval.v1.RetrievalService/NoSuchMethod", b"", grpc.StatusCode.UNIMPLEMENTED),
    ("/cairn.nothing.v1.NoService/Do", b"", grpc.StatusCode.UNIMPLEMENTED),
    # Beyond the message limit.
    ("/cairn.retrieval.v1.RetrievalService/Search", b"\x12" + struct.pack("B", 0) * (17 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
])
def test_raw_bytes(server, method, payload, code):
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(server.address, options=options) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(method, lambda b: b, lambda b: b)(payload)
    assert caught.value.code() == code, caught.value.details()


# Files that are hostile or broken: the job ends, whichever way, and the server goes on.
FILES = {
    "empty.txt": b"",
    "nul.txt": b"before\0after " * 100,
    "binary.md": bytes(range(256)) * 64,
    "not-utf8.txt": b"caf\xe9 \xff\xfe\xfd " * 50,
    "bom.txt": b"\xef\xbb\xbfThe gauge shows 7 bar.",
    "one-line.txt": b"word " * 8_000,
    "no-spaces.txt": b"x" * 30_000,
    "deep.html": b"<div>" * 100_000 + b"bottom" + b"</div>" * 100_000,
    "unclosed.html": b"<p><b><i><table><tr><td>" * 5_000 + b"text",
    "attributes.html": b"<p " + b"a=b " * 50_000 + b">text</p>",
    "entities.html": b"<p>" + b"&amp;&#x110000;&#0;&nosuch;" * 5_000 + b"</p>",
    "headings.md": b"".join(b"#" * (1 + i % 6) + b" h\n" for i in range(2_000)),
    "quotes.md": b">" * 20_000 + b" deep quote",
    "lists.md": b"".join(b" " * (2 * i) + b"- item\n" for i in range(500)),
    "brackets.md": b"[" * 20_000 + b"](" * 20_000,
    "fence.md": b"```\nnever closed\n" + b"code\n" * 2_000,
    "../../escape.md": b"# Path\n\nAn id is a name, not a path.\n",
    "/etc/passwd": b"An id is a name, not a path.\n",
    "surrogates.txt": b"\xed\xa0\x80\xed\xbf\xbf text",
}


@pytest.mark.parametrize("name", FILES)
def test_file(client, name):
    job = client.wait(client.put("hostile", name, FILES[name]))
    pb = client.s.ingest
    assert job.state in (pb.JOB_STATE_SUCCEEDED, pb.JOB_STATE_FAILED), job
    if job.state == pb.JOB_STATE_FAILED:
        assert job.error and job.error_reason
    else:
        source = client.retrieval.ReadSource(client.s.retrieval.ReadSourceRequest(collection="hostile", document_id=name))
        assert source.total_bytes == len(FILES[name]) and FILES[name].startswith(source.data)


def test_truncated_model_is_an_error_and_the_server_serves(tmp_path, data_dir):
    """The generator's file ends in the middle: search works, asking says why not, health says so."""
    from cairn_client import models_dir

    require_models("smollm2-135m", "multilingual-e5-small")
    whole = (models_dir() / "smollm2-135m/model.gguf").read_bytes()
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(whole[:len(whole) // 2])
    server = Server(str(tmp_path), {"CAIRN_MODELS_GENERATOR": str(broken), "CAIRN_MODELS_RERANKER": ""}).wait_listening()
    try:
        client = Client(server.address)
        job = client.wait(client.put("c", "a.txt", b"The gauge shows 7 bar."))
        assert job.state == client.s.ingest.JOB_STATE_SUCCEEDED
        with pytest.raises(grpc.RpcError) as caught:
            client.ask("c", "What does the gauge show?")
        assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION, caught.value
        assert details(caught.value)[0] == "MODEL_UNUSABLE"
        assert client.retrieval.Search(client.s.retrieval.SearchRequest(collection="c", query="gauge")).hits
    finally:
        assert server.stop() == 0

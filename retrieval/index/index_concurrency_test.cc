// Commits, deletes and searches at once. Every document version has two chunks that name it; a
// reader must see both of one version or none, in one search, and what it reads must be whole. Run
// it under the thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "retrieval/index/index_test_util.h"

namespace cairn::retrieval {
namespace {

constexpr int kDocuments = 6;
constexpr int kRounds = 60;
constexpr size_t kOtherCollections = 64;  // so that listing takes long enough to be overtaken

TEST(IndexConcurrency, ReadersSeeWholeVersions) {
  const TempDir temp;
  const std::unique_ptr<Index> index = OpenIndex(temp.path());
  ASSERT_NE(index, nullptr);
  FakeEmbedder embedder(8);
  const RequestContext context = RequestContext::Background();
  CollectionConfig config{"docs", *embedder.Info(context)};
  const auto created = index->CreateCollection(config);
  ASSERT_TRUE(created.ok()) << created.status();
  for (size_t i = 0; i < kOtherCollections; ++i) {
    ASSERT_TRUE(index->CreateCollection({StrCat("other", i), *embedder.Info(context)}).ok());
  }

  std::atomic<int> writers_left{2};
  std::atomic<bool> failed{false};
  const auto fail = [&](const std::string& why) {
    if (!failed.exchange(true)) ADD_FAILURE() << why;
  };
  const auto write = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < kRounds && !failed; ++round) {
      const std::string id = StrCat("d", random() % kDocuments);
      if (random() % 5 == 0) {
        const auto deleted = index->Delete(context, "docs", id);
        if (!deleted.ok()) fail(StrCat("delete: ", deleted.status().ToString()));
        continue;
      }
      const std::string mark = StrCat("mark", seed, "x", round);
      const auto committed = index->Commit(
          context, embedder.Embed(MakeDocument("docs", id,
                                               {StrCat("first ", mark), StrCat("second ", mark)})));
      if (!committed.ok()) fail(StrCat("commit: ", committed.status().ToString()));
    }
    --writers_left;
  };
  const auto read = [&](SearchMode mode) {
    SearchQuery query;
    query.collection = "docs";
    query.text = "first second";
    query.mode = mode;
    query.top_k = 1000;
    query.explain = true;
    do {
      const auto result = index->Search(context, query, &embedder, nullptr);
      if (!result.ok()) return fail(StrCat("search: ", result.status().ToString()));
      std::map<std::string, std::vector<const SearchHit*>> documents;
      for (const SearchHit& hit : result->hits) documents[hit.document.document_id].push_back(&hit);
      for (const auto& [id, hits] : documents) {
        if (hits.size() != 2) return fail(StrCat(id, " has ", hits.size(), " chunks"));
        const auto mark = [](const SearchHit* hit) {
          return hit->chunk.text.substr(hit->chunk.text.find(' '));
        };
        if (mark(hits[0]) != mark(hits[1]) || hits[0]->chunk.version != hits[1]->chunk.version) {
          return fail(StrCat(id, " is a mix of versions: ", mark(hits[0]), mark(hits[1])));
        }
      }
      const auto page = index->ListDocuments(context, "docs", "", 1000, {});
      if (!page.ok()) return fail(page.status().ToString());
      for (const DocumentInfo& info : page->documents) {
        const auto source = index->ReadSource(context, "docs", info.document_id, info.version,
                                              {0, info.source_bytes});
        if (source.ok() ? Sha256Hex(*source) != info.content_sha256
                        : !absl::IsNotFound(source.status())) {
          return fail(StrCat("source of ", info.document_id, ": ", source.status().ToString()));
        }
      }
    } while (writers_left > 0 && !failed);
  };
  // Every other way to read, each of which must hold on to the state that it looks at.
  const auto list = [&] {
    while (writers_left > 0 && !failed) {
      const std::vector<CollectionInfo> collections = index->ListCollections();
      if (collections.size() != 1 + kOtherCollections || collections[0].config.name != "docs") {
        return fail(StrCat(collections.size(), " collections"));
      }
    }
  };
  const auto look = [&] {
    while (writers_left > 0 && !failed) {
      const std::vector<CollectionInfo> collections = index->ListCollections();
      const auto info = index->GetCollection("docs");
      const IndexStats stats = index->Stats();
      for (const CollectionInfo& seen : {collections[0], info.ok() ? *info : CollectionInfo()}) {
        if (seen.config.name != "docs" || seen.num_chunks != 2 * seen.num_documents) {
          return fail(StrCat(seen.config.name, " with ", seen.num_chunks, " chunks"));
        }
      }
      if (stats.num_chunks != 2 * stats.num_documents) return fail("the statistics are a mix");
      const std::string id = StrCat("d", stats.num_chunks % kDocuments);
      const auto chunks = index->GetChunks(context, "docs", id);
      if (chunks.ok() ? chunks->size() != 2 : !absl::IsNotFound(chunks.status())) {
        return fail(StrCat("chunks of ", id, ": ", chunks.status().ToString()));
      }
      if (!chunks.ok()) continue;
      const auto chunk = index->GetChunk(context, "docs", (*chunks)[0].chunk_id);
      if (!chunk.ok() && !absl::IsNotFound(chunk.status())) return fail("a chunk cannot be read");
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(list);
  threads.emplace_back(look);
  threads.emplace_back(write, 1);
  threads.emplace_back(write, 2);
  threads.emplace_back(read, SearchMode::kLexical);
  threads.emplace_back(read, SearchMode::kHybrid);
  threads.emplace_back([&] {
    while (writers_left > 0 && !failed) {
      const auto report = index->Verify(context);
      if (!report.ok() || !report->problems.empty()) {
        fail(report.ok() ? report->problems[0] : report.status().ToString());
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cairn::retrieval

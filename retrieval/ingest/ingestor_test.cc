#include "retrieval/ingest/ingestor.h"

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "retrieval/ingest/ingest_test_util.h"

namespace cairn::retrieval {
namespace {

using ::testing::ElementsAre;

// Markdown of `sections` chunks.
std::string Manual(int sections) {
  std::string out = "# Manual\n\n";
  for (int i = 0; i < sections; ++i)
    StrAppend(&out, "## Part ", i, "\n\nText of part ", i, ".\n\n");
  return out;
}

class IngestorTest : public ::testing::Test {
 protected:
  IngestorTest() {
    dir_ = ::testing::TempDir() + "/ingestor-XXXXXX";
    mkdtemp(dir_.data());
    options_.embed_batch_size = 2;
    options_.first_backoff = absl::Milliseconds(1);
    options_.max_backoff = absl::Milliseconds(20);
  }
  ~IngestorTest() override {
    ingestor_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Open() {
    ingestor_.reset();
    auto ingestor = Ingestor::Open(dir_, options_, &embedder_, &sink_);
    ASSERT_TRUE(ingestor.ok()) << ingestor.status();
    ingestor_ = *std::move(ingestor);
  }

  absl::StatusOr<Job> TryPut(const std::string& id, std::string_view bytes,
                             const std::string& media_type = "", const Metadata& metadata = {},
                             int chunk_tokens = 0) {
    auto spool = ingestor_->NewSpool();
    CAIRN_RETURN_IF_ERROR(spool.status());
    CAIRN_RETURN_IF_ERROR((*spool)->Append(bytes));
    CAIRN_RETURN_IF_ERROR((*spool)->Finish());
    return ingestor_->Put(context_,
                          {"c", id, media_type, metadata, *std::move(spool), chunk_tokens});
  }
  Job Put(const std::string& id, std::string_view bytes, const Metadata& metadata = {}) {
    const auto job = TryPut(id, bytes, "", metadata);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : Job();
  }
  Job Wait(const Job& job) {
    const auto done = ingestor_->WatchJob(context_.WithTimeout(absl::Seconds(30)), job.id,
                                          [](const Job&) { return true; });
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() ? *done : Job();
  }
  Job PutAndWait(const std::string& id, std::string_view bytes, const Metadata& metadata = {}) {
    return Wait(Put(id, bytes, metadata));
  }

  std::string dir_;
  IngestOptions options_;
  FakeEmbedder embedder_;
  MemorySink sink_;
  std::unique_ptr<Ingestor> ingestor_;
  RequestContext context_ = RequestContext::Background();
};

TEST_F(IngestorTest, BytesBecomeACommittedVersion) {
  Open();
  const std::string source = Manual(5);
  const Job job = PutAndWait("docs/m.md", source, {{"lang", std::string("en")}});
  EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
  EXPECT_EQ(job.outcome, JobOutcome::kCreated);
  EXPECT_EQ(job.version, 1u);
  EXPECT_EQ(job.chunks_done, job.chunks_total);
  EXPECT_EQ(job.media_type, "text/markdown");
  EXPECT_EQ(job.sha256, Sha256Hex(source));

  const DocumentVersion document = sink_.Get("docs/m.md");
  EXPECT_EQ(document.source, source);
  EXPECT_EQ(document.info.title, "Manual");
  EXPECT_EQ(document.info.encoding, "utf-8");
  EXPECT_EQ(document.info.media_type, "text/markdown");
  EXPECT_EQ(document.info.source_bytes, source.size());
  EXPECT_EQ(document.info.content_sha256, Sha256Hex(source));
  EXPECT_EQ(document.info.metadata.size(), 1u);
  EXPECT_EQ(document.embedder_fingerprint, "fake-space");
  ASSERT_EQ(document.chunks.size(), 5u);
  ASSERT_EQ(document.vectors.size(), 5u * 4);
  EXPECT_EQ(document.info.num_chunks, 5u);
  for (size_t i = 0; i < document.chunks.size(); ++i) {
    const Chunk& chunk = document.chunks[i];
    EXPECT_EQ(source.substr(chunk.span.begin, chunk.span.size()), chunk.text);
    EXPECT_EQ(
        std::vector<float>(document.vectors.begin() + i * 4, document.vectors.begin() + i * 4 + 4),
        FakeVector(EmbeddingText(chunk, "Manual")));
  }
  // Nothing of the source stays behind.
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/jobs/" + job.id + "/source"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/jobs/" + job.id + "/vectors"));
  EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/spool"));
}

TEST_F(IngestorTest, TheSameBytesAgainAreNotEmbedded) {
  Open();
  PutAndWait("a.md", Manual(3));
  const int batches = embedder_.batches;
  const Job again = PutAndWait("a.md", Manual(3));
  EXPECT_EQ(again.outcome, JobOutcome::kUnchanged);
  EXPECT_EQ(again.version, 1u);
  EXPECT_EQ(embedder_.batches, batches);
  EXPECT_EQ(sink_.commits(), 1);
  // Other bytes or other metadata make a version.
  EXPECT_EQ(PutAndWait("a.md", Manual(4)).outcome, JobOutcome::kReplaced);
  const Job metadata = PutAndWait("a.md", Manual(4), {{"k", int64_t{1}}});
  EXPECT_EQ(metadata.outcome, JobOutcome::kReplaced);
  EXPECT_EQ(metadata.version, 3u);
  EXPECT_EQ(sink_.Get("a.md").chunks.size(), 4u);
}

TEST_F(IngestorTest, TheSameBytesInChunksOfAnotherSizeAreChunkedAgain) {
  Open();
  std::string source;
  for (int i = 0; i < 100; ++i) StrAppend(&source, "Sentence number ", i, " of some words. ");
  const auto put = [&](int chunk_tokens) {
    return Wait(*TryPut("a.txt", source, "", {}, chunk_tokens)).outcome;
  };
  EXPECT_EQ(put(32), JobOutcome::kCreated);
  const size_t small = sink_.Get("a.txt").chunks.size();
  EXPECT_EQ(put(32), JobOutcome::kUnchanged);
  EXPECT_EQ(put(0), JobOutcome::kReplaced);
  EXPECT_LT(sink_.Get("a.txt").chunks.size(), small);
  // Asking for the default by its size is asking for the default.
  EXPECT_EQ(put(options_.target_tokens), JobOutcome::kUnchanged);
  options_.target_tokens = 48;
  Open();
  EXPECT_EQ(put(0), JobOutcome::kReplaced);
  EXPECT_EQ(sink_.Get("a.txt").info.chunk_tokens, 48u);

  // A document from before its chunking was recorded counts as made with the default.
  sink_.ForgetChunking();
  EXPECT_EQ(put(0), JobOutcome::kUnchanged);
  EXPECT_EQ(put(32), JobOutcome::kReplaced);
}

TEST_F(IngestorTest, JobsOfOneDocumentRunInOrderAndTheLastOneWins) {
  options_.workers = 4;
  Open();
  std::vector<Job> jobs;
  for (int i = 1; i <= 20; ++i) jobs.push_back(Put("a.md", Manual(i)));
  for (int i = 1; i <= 20; ++i) {
    const Job job = Wait(jobs[static_cast<size_t>(i - 1)]);
    EXPECT_EQ(job.version, static_cast<uint64_t>(i));
  }
  EXPECT_EQ(sink_.Get("a.md").chunks.size(), 20u);
}

TEST_F(IngestorTest, ABrokenFileFailsAloneWithAReason) {
  Open();
  struct Case {
    std::string id, bytes;
    const char* reason;
  };
  const Case cases[] = {
      {"nul.txt", std::string("a\0b", 3), kReasonBinary},
      {"x.pdf", "%PDF-1.4 ...", kReasonBinary},
      {"latin1.txt", "caf\xE9 au lait", kReasonEncoding},
      {"half.md", "text \xE4\xB8", kReasonEncoding},
      {"empty.md", "", kReasonEmpty},
      {"blank.txt", " \n\t\n", kReasonEmpty},
      {"boilerplate.html", "<nav>x</nav>", kReasonEmpty},
      {"deep.html",
       [] {
         std::string s;
         for (int i = 0; i < 100'000; ++i) s += "<div>";
         return s;
       }(),
       kReasonTooDeep},
      {"deep.md", std::string(50'000, '>') + "x", kReasonTooDeep},
  };
  std::vector<Job> jobs;
  for (const Case& c : cases) jobs.push_back(Put(c.id, c.bytes));
  const Job good = Put("good.md", Manual(2));
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job job = Wait(jobs[i]);
    EXPECT_EQ(job.state, JobState::kFailed) << cases[i].id;
    EXPECT_EQ(job.error.code(), absl::StatusCode::kInvalidArgument) << cases[i].id;
    EXPECT_EQ(ReasonOf(job.error), cases[i].reason) << cases[i].id << " " << job.error;
    EXPECT_EQ(job.attempts, 1) << cases[i].id;
  }
  EXPECT_EQ(Wait(good).state, JobState::kSucceeded);
  EXPECT_EQ(sink_.commits(), 1);
}

TEST_F(IngestorTest, BadRequestsAreRefusedAtOnce) {
  options_.max_source_bytes = 100;
  Open();
  struct Case {
    std::string collection, id, media_type;
    Metadata metadata;
    const char* field;
  };
  const Case cases[] = {
      {"", "a", "", {}, "collection"},
      {std::string(200, 'c'), "a", "", {}, "collection"},
      {"c\n", "a", "", {}, "collection"},
      {"c", "", "", {}, "document_id"},
      {"c", std::string(1025, 'a'), "", {}, "document_id"},
      {"c", std::string("a\0b", 3), "", {}, "document_id"},
      {"c", "a\xFF", "", {}, "document_id"},
      {"c", "a", "application/pdf", {}, "media_type"},
      {"c", "a", "", {{"", true}}, "metadata"},
      {"c", "a", "", {{"k\xFF", true}}, "metadata"},
      {"c", "a", "", {{"k", std::string("\xFF")}}, "metadata"},
      {"c", "a", "", {{"k", std::numeric_limits<double>::quiet_NaN()}}, "metadata"},
      {"c", "a", "", {{"k", std::string(70'000, 'x')}}, "metadata"},
  };
  for (const Case& c : cases) {
    auto spool = ingestor_->NewSpool();
    ASSERT_TRUE((*spool)->Append("text").ok());
    ASSERT_TRUE((*spool)->Finish().ok());
    const auto job =
        ingestor_->Put(context_, {c.collection, c.id, c.media_type, c.metadata, *std::move(spool)});
    EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << c.field;
    EXPECT_EQ(FieldOf(job.status()), c.field) << job.status();
  }
  EXPECT_EQ(FieldOf(ingestor_->Put(context_, {"c", "a", "", {}, nullptr}).status()), "source");
  auto open = ingestor_->NewSpool();
  EXPECT_EQ(FieldOf(ingestor_->Put(context_, {"c", "a", "", {}, *std::move(open)}).status()),
            "source");
  EXPECT_EQ(TryPut("a", std::string(101, 'x')).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(ingestor_->GetJob("nope").status()), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(ingestor_->GetJob("../../etc").status()), "JOB_NOT_FOUND");
  EXPECT_EQ(ReasonOf(ingestor_->CancelJob("").status()), "JOB_NOT_FOUND");
  CancelSource cancelled;
  cancelled.Cancel();
  EXPECT_TRUE(absl::IsCancelled(
      ingestor_->Put(RequestContext(cancelled), {"c", "a", "", {}, nullptr}).status()));
  EXPECT_TRUE(ingestor_->ListJobs({}).empty());
  // Ids are names, not paths.
  EXPECT_EQ(PutAndWait("../../../etc/passwd.md", "# x\ny").state, JobState::kSucceeded);
  EXPECT_EQ(PutAndWait("/abs/path.md", "# x\ny").state, JobState::kSucceeded);
}

TEST_F(IngestorTest, TransientErrorsAreTriedAgainWithoutDoingAStepTwice) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kResourceExhausted}) {
    embedder_.batches = 0;
    embedder_.texts_embedded = 0;
    embedder_.before_batch = [code](const RequestContext&, int call) {
      return call == 2 || call == 3 ? absl::Status(code, "later") : absl::OkStatus();
    };
    Open();
    const Job job = PutAndWait(absl::StatusCodeToString(code) + ".md", Manual(6));
    EXPECT_EQ(job.state, JobState::kSucceeded) << job.error;
    EXPECT_EQ(job.attempts, 3);
    EXPECT_EQ(embedder_.batches, 5);  // 3 batches that worked, 2 that did not
    EXPECT_EQ(embedder_.texts_embedded, 6);
  }
}

TEST_F(IngestorTest, RetriesAreBounded) {
  options_.max_attempts = 3;
  embedder_.before_batch = [](const RequestContext&, int) {
    return absl::UnavailableError("down");
  };
  Open();
  const Job job = PutAndWait("a.md", Manual(1));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.error.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(job.attempts, 3);
  EXPECT_EQ(embedder_.batches, 3);
}

TEST_F(IngestorTest, AFailedReingestKeepsTheGoodVersion) {
  Open();
  PutAndWait("a.md", Manual(6));
  embedder_.batches = 0;
  embedder_.before_batch = [](const RequestContext&, int call) {
    return call == 3 ? absl::InternalError("broken") : absl::OkStatus();
  };
  const Job job = PutAndWait("a.md", Manual(8));
  EXPECT_EQ(job.state, JobState::kFailed);
  EXPECT_EQ(job.attempts, 1);
  EXPECT_EQ(sink_.Get("a.md").info.version, 1u);
  EXPECT_EQ(sink_.Get("a.md").chunks.size(), 6u);
}

TEST_F(IngestorTest, BadVectorsAreErrors) {
  const std::pair<const char*, std::function<void(std::vector<float>*)>> cases[] = {
      {"fewer", [](std::vector<float>* v) { v->resize(v->size() - 4); }},
      {"none", [](std::vector<float>* v) { v->clear(); }},
      {"more", [](std::vector<float>* v) { v->resize(v->size() + 4, 1); }},
      {"nan", [](std::vector<float>* v) { (*v)[1] = std::numeric_limits<float>::quiet_NaN(); }},
      {"inf", [](std::vector<float>* v) { (*v)[1] = std::numeric_limits<float>::infinity(); }},
      {"zero", [](std::vector<float>* v) { std::fill(v->begin(), v->begin() + 4, 0.0f); }},
  };
  for (const auto& [name, change] : cases) {
    embedder_.after_batch = change;
    Open();
    const Job job = PutAndWait(std::string(name) + ".md", Manual(3));
    EXPECT_EQ(job.state, JobState::kFailed) << name;
    EXPECT_EQ(ReasonOf(job.error), "BAD_EMBEDDING") << name;
  }
  EXPECT_EQ(sink_.commits(), 0);
}

TEST_F(IngestorTest, ALostAnswerOfACommitIsNotCommittedTwice) {
  int commits = 0;
  sink_.after_commit = [&](const DocumentVersion&) {
    return ++commits == 1 ? absl::UnavailableError("connection lost") : absl::OkStatus();
  };
  Open();
  const Job job = PutAndWait("a.md", Manual(2));
  EXPECT_EQ(job.state, JobState::kSucceeded);
  EXPECT_EQ(job.outcome, JobOutcome::kCreated);
  EXPECT_EQ(job.version, 1u);
  EXPECT_EQ(sink_.commits(), 1);
}

TEST_F(IngestorTest, CancelStopsARunningAndAQueuedJob) {
  options_.workers = 1;
  absl::Notification started;
  embedder_.before_batch = [&](const RequestContext& context, int call) {
    if (call != 1) return absl::OkStatus();
    started.Notify();
    absl::Notification cancelled;
    const CancelRegistration wake = context.OnCancel([&] { cancelled.Notify(); });
    cancelled.WaitForNotification();
    return absl::CancelledError("cancelled");
  };
  Open();
  const Job running = Put("a.md", Manual(3));
  const Job queued = Put("a.md", Manual(4));
  const Job other = Put("b.md", Manual(5));
  started.WaitForNotification();
  EXPECT_EQ(ingestor_->CancelJob(queued.id)->state, JobState::kCancelled);
  EXPECT_TRUE(ingestor_->CancelJob(running.id).ok());
  EXPECT_EQ(Wait(running).state, JobState::kCancelled);
  EXPECT_EQ(Wait(queued).state, JobState::kCancelled);
  EXPECT_EQ(Wait(other).state, JobState::kSucceeded);
  // A finished job stays as it is.
  EXPECT_EQ(ingestor_->CancelJob(other.id)->state, JobState::kSucceeded);
  EXPECT_EQ(ingestor_->CancelJob(running.id)->state, JobState::kCancelled);
  EXPECT_EQ(sink_.commits(), 1);
}

TEST_F(IngestorTest, WatchSeesProgressAndCanStop) {
  options_.workers = 1;
  absl::Notification go;
  embedder_.before_batch = [&](const RequestContext&, int call) {
    if (call == 1) go.WaitForNotification();
    return absl::OkStatus();
  };
  Open();
  const Job job = Put("a.md", Manual(6));
  EXPECT_TRUE(absl::IsCancelled(
      ingestor_->WatchJob(context_, job.id, [](const Job&) { return false; }).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(ingestor_
                                           ->WatchJob(context_.WithTimeout(absl::Milliseconds(5)),
                                                      job.id, [](const Job&) { return true; })
                                           .status()));
  CancelSource source;
  std::thread canceller([&] { source.Cancel(); });
  EXPECT_TRUE(absl::IsCancelled(
      ingestor_->WatchJob(RequestContext(source), job.id, [](const Job&) { return true; })
          .status()));
  canceller.join();
  std::vector<Job> seen;
  const auto done = ingestor_->WatchJob(context_, job.id, [&](const Job& j) {
    if (!go.HasBeenNotified() && j.stage == JobStage::kEmbedding) go.Notify();
    seen.push_back(j);
    return true;
  });
  ASSERT_TRUE(done.ok());
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen.back().state, JobState::kSucceeded);
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(static_cast<int>(seen[i].stage), static_cast<int>(seen[i - 1].stage));
    EXPECT_GE(seen[i].chunks_done, seen[i - 1].chunks_done);
    EXPECT_LE(seen[i].chunks_done, seen[i].chunks_total);
  }
}

TEST_F(IngestorTest, DeleteStopsTheDocumentsJobsFirst) {
  absl::Notification started;
  embedder_.before_batch = [&](const RequestContext& context, int call) {
    if (call != 2) return absl::OkStatus();
    started.Notify();
    absl::Notification cancelled;
    const CancelRegistration wake = context.OnCancel([&] { cancelled.Notify(); });
    cancelled.WaitForNotification();
    return absl::CancelledError("cancelled");
  };
  Open();
  PutAndWait("a.md", Manual(1));
  const Job running = Put("a.md", Manual(2));
  const Job queued = Put("a.md", Manual(3));
  started.WaitForNotification();
  const auto deleted = ingestor_->Delete(context_, "c", "a.md");
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(*deleted, 1);
  EXPECT_EQ(ingestor_->GetJob(running.id)->state, JobState::kCancelled);
  EXPECT_EQ(ingestor_->GetJob(queued.id)->state, JobState::kCancelled);
  EXPECT_EQ(sink_.Get("a.md").info.version, 0u);
  EXPECT_EQ(*ingestor_->Delete(context_, "c", "a.md"), 0);
  EXPECT_FALSE(ingestor_->Delete(context_, "c", "").ok());
  EXPECT_EQ(PutAndWait("a.md", Manual(3)).outcome, JobOutcome::kCreated);
}

TEST_F(IngestorTest, TheQueueAndTheHistoryAreBounded) {
  options_.workers = 1;
  options_.max_queued_jobs = 3;
  options_.kept_finished_jobs = 2;
  absl::Notification go;
  embedder_.before_batch = [&](const RequestContext&, int) {
    go.WaitForNotification();
    return absl::OkStatus();
  };
  Open();
  std::vector<Job> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(Put(StrCat(i, ".md"), Manual(1)));
  const auto full = TryPut("4.md", Manual(1));
  EXPECT_EQ(full.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full.status()), "INGEST_QUEUE_FULL");
  EXPECT_TRUE(RetryAfterOf(full.status()).has_value());
  JobFilter active;
  active.active_only = true;
  EXPECT_EQ(ingestor_->ListJobs(active).size(), 3u);
  go.Notify();
  Wait(jobs[2]);
  std::vector<std::string> ids;
  for (const Job& job : ingestor_->ListJobs({})) ids.push_back(job.document_id);
  EXPECT_THAT(ids, ElementsAre("2.md", "1.md"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/jobs/" + jobs[0].id));
  Open();
  EXPECT_EQ(ingestor_->ListJobs({}).size(), 2u);
  EXPECT_EQ(ingestor_->ListJobs({"c", "1.md", false, 10}).size(), 1u);
  EXPECT_EQ(ingestor_->ListJobs({"other", "", false, 10}).size(), 0u);
  EXPECT_EQ(ingestor_->ListJobs({"", "", false, 1}).size(), 1u);
}

TEST_F(IngestorTest, AStoppedIngestorGoesOnWhereItWas) {
  options_.workers = 1;
  absl::Notification third;
  embedder_.before_batch = [&](const RequestContext& context, int call) {
    if (call != 3) return absl::OkStatus();
    third.Notify();
    absl::Notification cancelled;
    const CancelRegistration wake = context.OnCancel([&] { cancelled.Notify(); });
    cancelled.WaitForNotification();
    return absl::CancelledError("stopping");
  };
  Open();
  const Job a = Put("a.md", Manual(10));
  const Job b = Put("b.md", Manual(1));
  third.WaitForNotification();
  Ingestor* const first = ingestor_.get();
  absl::Notification watching;
  std::thread watcher([&] {
    const auto job = first->WatchJob(context_, a.id, [&](const Job&) {
      if (!watching.HasBeenNotified()) watching.Notify();
      return true;
    });
    EXPECT_TRUE(absl::IsUnavailable(job.status())) << job.status();
  });
  watching.WaitForNotification();
  Open();
  watcher.join();
  EXPECT_EQ(Wait(a).state, JobState::kSucceeded);
  EXPECT_EQ(Wait(a).attempts, 1);
  EXPECT_EQ(Wait(b).state, JobState::kSucceeded);
  EXPECT_EQ(embedder_.texts_embedded, 11);  // none twice
  EXPECT_EQ(sink_.Get("a.md").chunks.size(), 10u);
}

TEST_F(IngestorTest, LargeDocumentsRunOneAtATime) {
  options_.workers = 4;
  options_.large_document_bytes = 1000;
  std::atomic<int> inside = 0, most = 0;
  embedder_.before_batch = [&](const RequestContext&, int) {
    most = std::max(most.load(), ++inside);
    absl::SleepFor(absl::Milliseconds(2));
    --inside;
    return absl::OkStatus();
  };
  Open();
  std::vector<Job> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Put(StrCat(i, ".md"), Manual(60)));
  for (const Job& job : jobs) EXPECT_EQ(Wait(job).state, JobState::kSucceeded);
  EXPECT_EQ(most, 1);
}

}  // namespace
}  // namespace cairn::retrieval

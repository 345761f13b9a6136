#include "services/gateway/http_server.h"

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// What a handler produced and the connection has not sent yet. The handler's thread fills it, the
// I/O thread empties it.
class Exchange : public ResponseWriter {
 public:
  Exchange(asio::io_context& io, size_t buffer_limit)
      : wake_(io), io_(io), buffer_limit_(buffer_limit) {
    wake_.expires_at(asio::steady_timer::time_point::max());
  }

  struct Head {
    int status = 0;
    std::string content_type;
    HttpHeaders headers;
    bool stream = false;
  };

  // --- handler's side ---
  void Send(int status, std::string_view content_type, std::string body,
            HttpHeaders headers) override {
    absl::MutexLock lock(&mutex_);
    if (head_) return;
    head_ = Head{status, std::string(content_type), std::move(headers), false};
    buffer_ = std::move(body);
    ended_ = true;
    WakeUp();
  }
  bool BeginStream(int status, std::string_view content_type, HttpHeaders headers) override {
    absl::MutexLock lock(&mutex_);
    if (head_) return false;
    head_ = Head{status, std::string(content_type), std::move(headers), true};
    WakeUp();
    return !gone_;
  }
  bool Write(std::string_view data) override {
    absl::MutexLock lock(&mutex_);
    auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return gone_ || buffer_.size() < buffer_limit_;
    };
    mutex_.Await(absl::Condition(&has_room));
    if (gone_) return false;
    buffer_.append(data);
    WakeUp();
    return true;
  }
  void EndStream() override {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    WakeUp();
  }
  // The handler returned: whatever it forgot is made good.
  void Finish() {
    absl::MutexLock lock(&mutex_);
    if (!head_) head_ = Head{500, "text/plain", {}, false};
    ended_ = true;
    finished_ = true;
    WakeUp();
  }

  // --- connection's side ---
  struct Taken {
    std::optional<Head> head;  // once
    std::string data;
    bool ended = false;     // nothing more will come
    bool finished = false;  // and the handler has returned
  };
  // Everything new; empty when nothing is.
  Taken Take() {
    absl::MutexLock lock(&mutex_);
    Taken taken;
    if (head_ && !head_taken_) {
      taken.head = *head_;
      head_taken_ = true;
    }
    taken.data.swap(buffer_);
    taken.ended = ended_ && head_taken_;
    taken.finished = finished_;
    return taken;
  }
  void Abandon() {
    absl::MutexLock lock(&mutex_);
    gone_ = true;
    buffer_.clear();
  }
  bool finished() {
    absl::MutexLock lock(&mutex_);
    return finished_;
  }
  asio::steady_timer& wake() { return wake_; }

 private:
  void WakeUp() {
    // The timer belongs to the I/O thread. The shared pointer keeps this alive until then.
    asio::post(io_, [self = self_.lock()] {
      if (self) self->wake_.cancel();
    });
  }

 public:
  void KeepSelf(std::weak_ptr<Exchange> self) { self_ = std::move(self); }

 private:
  asio::steady_timer wake_;
  asio::io_context& io_;
  const size_t buffer_limit_;
  std::weak_ptr<Exchange> self_;
  absl::Mutex mutex_;
  std::optional<Head> head_ ABSL_GUARDED_BY(mutex_);
  bool head_taken_ ABSL_GUARDED_BY(mutex_) = false;
  std::string buffer_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

HttpRequest Convert(const http::request<http::string_body>& message, std::string remote) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const std::string target(message.target());
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  for (const auto& field : message) {
    request.headers[absl::AsciiStrToLower(std::string(field.name_string()))] =
        std::string(field.value());
  }
  request.body = message.body();
  request.remote_address = std::move(remote);
  return request;
}

std::chrono::nanoseconds Chrono(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

class BeastServer : public HttpServer {
 public:
  BeastServer(const HttpServerOptions& options, HttpHandler handler)
      : options_(options),
        handler_(std::move(handler)),
        acceptor_(io_),
        handlers_(static_cast<size_t>(options.num_handlers)) {}

  ~BeastServer() override { Stop(absl::Now()); }

  absl::Status Listen() {
    error_code error;
    const asio::ip::address address = asio::ip::make_address(options_.address, error);
    if (error)
      return InvalidField("http.listen", StrCat("\"", options_.address, "\" is not an IP address"));
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return absl::UnavailableError(
          StrCat("cannot listen on ", options_.address, ":", options_.port, ": ", error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    asio::co_spawn(io_, Accept(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  uint16_t port() const override { return port_; }

  void Stop(absl::Time deadline) override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
    while (running_requests_ > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
    stopping_.Cancel();
    handlers_.join();
    io_.stop();
    thread_.join();
  }

 private:
  asio::awaitable<void> Accept() {
    while (true) {
      error_code error;
      tcp::socket socket =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) co_return;
      if (error) {
        log::Warning("accept failed", {{"error", error.message()}});
        asio::steady_timer pause(io_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      asio::co_spawn(io_, Serve(beast::tcp_stream(std::move(socket))), asio::detached);
    }
  }

  asio::awaitable<void> Serve(beast::tcp_stream stream) {
    const bool too_many = ++connections_ > options_.max_connections;
    if (too_many) {
      co_await Refuse(stream, 503, "too many connections");
    } else {
      co_await ServeRequests(stream);
    }
    error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    --connections_;
  }

  asio::awaitable<void> ServeRequests(beast::tcp_stream& stream) {
    beast::flat_buffer buffer(options_.max_header_bytes + 65536);
    error_code ignored;
    const tcp::endpoint peer = stream.socket().remote_endpoint(ignored);
    const std::string remote = ignored ? std::string() : peer.address().to_string();
    bool first = true;
    while (true) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(options_.max_header_bytes);
      parser.body_limit(options_.max_body_bytes);
      error_code error;
      if (!first && buffer.size() == 0) {
        stream.expires_after(Chrono(options_.idle_timeout));
        const size_t n = co_await stream.async_read_some(
            buffer.prepare(4096), asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
        buffer.commit(n);
      }
      first = false;
      stream.expires_after(Chrono(options_.receive_timeout));
      co_await http::async_read(stream, buffer, parser,
                                asio::redirect_error(asio::use_awaitable, error));
      if (error == http::error::header_limit) {
        co_await Refuse(stream, 431,
                        StrCat("the header is larger than ", options_.max_header_bytes, " bytes"));
        co_return;
      }
      if (error == http::error::body_limit) {
        co_await Refuse(stream, 413,
                        StrCat("the body is larger than ", options_.max_body_bytes, " bytes"));
        co_return;
      }
      if (error == beast::error::timeout || error == http::error::end_of_stream ||
          error == asio::error::connection_reset || error == asio::error::operation_aborted) {
        co_return;
      }
      if (error) {
        co_await Refuse(stream, 400, StrCat("bad request: ", error.message()));
        co_return;
      }
      const http::request<http::string_body> message = parser.release();
      HttpRequest request = Convert(message, remote);
      const bool keep =
          co_await Answer(stream, std::move(request), message.version(), message.keep_alive());
      if (!keep) co_return;
    }
  }

  // Runs the handler and sends what it produces. False when the connection must close.
  asio::awaitable<bool> Answer(beast::tcp_stream& stream, HttpRequest request, unsigned version,
                               bool keep_alive) {
    auto exchange = std::make_shared<Exchange>(io_, options_.stream_buffer_bytes);
    exchange->KeepSelf(exchange);
    CancelSource cancel;
    CancelRegistration on_stop = RequestContext(stopping_).OnCancel([cancel] { cancel.Cancel(); });
    const bool head_only = request.method == "HEAD";
    ++running_requests_;
    asio::post(handlers_, [this, exchange, cancel, request = std::move(request)] {
      const RequestContext context(cancel, absl::Now() + options_.request_timeout);
      handler_(context, request, *exchange);
      exchange->Finish();
      --running_requests_;
    });

    // A client that hangs up makes the idle socket readable; the handler may be computing for a
    // long time.
    auto watching = std::make_shared<bool>(true);
    stream.socket().async_wait(
        tcp::socket::wait_read, [&stream, watching, exchange, cancel](error_code error) {
          if (!*watching) return;
          *watching = false;
          char byte;
          if (!error) {
            stream.socket().non_blocking(true, error);
            stream.socket().receive(asio::buffer(&byte, 1), tcp::socket::message_peek, error);
            if (!error || error == asio::error::would_block)
              return;  // a pipelined request: not gone
          }
          exchange->Abandon();
          cancel.Cancel();
        });

    bool ok = true, streaming = false, ended = false;
    while (ok && !ended) {
      Exchange::Taken taken = exchange->Take();
      if (!taken.head && taken.data.empty() && !taken.ended) {
        error_code ignored;
        exchange->wake().expires_at(asio::steady_timer::time_point::max());
        co_await exchange->wake().async_wait(asio::redirect_error(asio::use_awaitable, ignored));
        continue;
      }
      stream.expires_after(Chrono(options_.write_timeout));
      if (taken.head) {
        streaming = taken.head->stream && version >= 11;
        if (taken.head->stream && version < 11) keep_alive = false;
        ok = co_await SendHead(stream, *taken.head, version, keep_alive, taken.data.size());
      }
      if (ok && !taken.data.empty() && !head_only)
        ok = co_await SendBody(stream, taken.data, streaming);
      ended = taken.ended;
    }
    if (ok && streaming && !head_only) ok = co_await SendLastChunk(stream);
    if (!ok) {
      exchange->Abandon();
      cancel.Cancel();
    }
    // The handler may still be running (after EndStream, or because the client is gone): a next
    // request waits.
    while (!exchange->finished()) {
      error_code ignored;
      exchange->wake().expires_after(std::chrono::milliseconds(50));
      co_await exchange->wake().async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    if (*watching) {
      *watching = false;
      error_code ignored;
      stream.socket().cancel(ignored);
    }
    co_return ok&& keep_alive && !cancel.cancelled();
  }

  asio::awaitable<bool> SendHead(beast::tcp_stream& stream, const Exchange::Head& head,
                                 unsigned version, bool keep_alive, size_t body_size) {
    http::response<http::empty_body> response;
    response.result(static_cast<unsigned>(head.status));
    response.version(version);
    response.set(http::field::content_type, head.content_type);
    for (const auto& [name, value] : head.headers) response.set(name, value);
    response.keep_alive(keep_alive);
    if (head.stream) {
      if (version >= 11) response.chunked(true);
    } else {
      response.content_length(body_size);
    }
    http::response_serializer<http::empty_body> serializer(response);
    error_code error;
    co_await http::async_write_header(stream, serializer,
                                      asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  asio::awaitable<bool> SendBody(beast::tcp_stream& stream, const std::string& data, bool chunked) {
    error_code error;
    if (chunked) {
      co_await asio::async_write(stream, http::make_chunk(asio::buffer(data)),
                                 asio::redirect_error(asio::use_awaitable, error));
    } else {
      co_await asio::async_write(stream, asio::buffer(data),
                                 asio::redirect_error(asio::use_awaitable, error));
    }
    co_return !error;
  }

  asio::awaitable<bool> SendLastChunk(beast::tcp_stream& stream) {
    error_code error;
    co_await asio::async_write(stream, http::make_chunk_last(),
                               asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  asio::awaitable<void> Refuse(beast::tcp_stream& stream, int status, std::string_view why) {
    http::response<http::string_body> response;
    response.result(static_cast<unsigned>(status));
    response.version(11);
    response.set(http::field::content_type, "application/json");
    if (status == 503) response.set(http::field::retry_after, "1");
    response.body() =
        StrCat("{\"error\":{\"message\":\"", why, "\",\"type\":\"invalid_request_error\"}}");
    response.keep_alive(false);
    response.prepare_payload();
    error_code error;
    stream.expires_after(Chrono(options_.write_timeout));
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::thread_pool handlers_;
  CancelSource stopping_;
  std::thread thread_;
  std::atomic<int> connections_{0};
  std::atomic<int> running_requests_{0};
  uint16_t port_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              HttpHandler handler) {
  auto server = std::make_unique<BeastServer>(options, std::move(handler));
  CAIRN_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace cairn::services

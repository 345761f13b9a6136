// HttpServer: HTTP/1.1 on Boost.Beast for handlers written as plain blocking code.
//
// Connections live on one I/O thread (coroutines); each request runs its handler on one of
// `num_handlers` threads. A handler answers once with Send, or with BeginStream, Write...,
// EndStream. Write blocks while the client reads slowly (at most `stream_buffer_bytes` wait) and
// returns false once the client is gone; the request's context is cancelled at that moment, even
// while the handler computes and writes nothing.
//
// Limits: header and body size, connections (503 with Retry-After beyond), time to receive a
// request, idle time. Threads: Start and Stop from one thread; ResponseWriter from the handler's
// thread only.
#ifndef CAIRN_SERVICES_GATEWAY_HTTP_SERVER_H_
#define CAIRN_SERVICES_GATEWAY_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::services {

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  // 0 = any free port
  uint64_t max_body_bytes = 4 << 20;
  uint32_t max_header_bytes = 16 << 10;
  int max_connections = 128;
  int num_handlers = 32;
  size_t stream_buffer_bytes = 256 << 10;
  absl::Duration receive_timeout =
      absl::Seconds(30);  // for a whole request, once its first byte is there
  absl::Duration idle_timeout = absl::Seconds(60);     // between requests
  absl::Duration write_timeout = absl::Seconds(60);    // for one write that makes no progress
  absl::Duration request_timeout = absl::Minutes(10);  // deadline of the handler's context
};

struct HttpRequest {
  std::string method;
  std::string path;  // without the query, not decoded
  std::string query;
  std::map<std::string, std::string> headers;  // names in lower case; the last of repeated ones
  std::string body;
  std::string remote_address;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;
  virtual void Send(int status, std::string_view content_type, std::string body,
                    HttpHeaders headers = {}) = 0;
  // Chunked transfer. Both return false when the client is gone.
  virtual bool BeginStream(int status, std::string_view content_type, HttpHeaders headers = {}) = 0;
  virtual bool Write(std::string_view data) = 0;
  virtual void EndStream() = 0;
};

using HttpHandler = std::function<void(const RequestContext&, const HttpRequest&, ResponseWriter&)>;

class HttpServer {
 public:
  // Binds and serves until Stop. UNAVAILABLE when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options,
                                                           HttpHandler handler);
  virtual ~HttpServer() = default;
  virtual uint16_t port() const = 0;
  // Stops accepting, lets running requests end until the deadline, then cancels them.
  virtual void Stop(absl::Time deadline) = 0;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_GATEWAY_HTTP_SERVER_H_

#include "common/check.h"

#include <cstdio>
#include <cstdlib>

namespace cairn::internal {

void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, expression);
  std::abort();
}

}  // namespace cairn::internal

// CAIRN_CHECK aborts with file, line and message when our own invariant is broken; CAIRN_DCHECK
// does so in debug and test builds only. Never for input from a user, a file, a model or a network.
#ifndef CAIRN_COMMON_CHECK_H_
#define CAIRN_COMMON_CHECK_H_

namespace cairn::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);
}

#define CAIRN_CHECK(cond) \
  ((cond) ? static_cast<void>(0) : ::cairn::internal::CheckFailed(__FILE__, __LINE__, #cond))

#if defined(CAIRN_DCHECKS) || !defined(NDEBUG)
#define CAIRN_DCHECK(cond) CAIRN_CHECK(cond)
#else
#define CAIRN_DCHECK(cond) static_cast<void>(sizeof((cond) ? 1 : 0))
#endif

#endif  // CAIRN_COMMON_CHECK_H_

// The checks of abseil that DeepMind Lab uses; see log.h.
#pragma once

#include "absl/log/log.h"

// The body aborts, so it runs once at most.
#define CHECK(condition) \
  while (!(condition)) LOG(FATAL) << "check failed: " #condition " "
#define QCHECK(condition) CHECK(condition)
#define CHECK_EQ(a, b) CHECK((a) == (b))
#define CHECK_NE(a, b) CHECK((a) != (b))
#define CHECK_LT(a, b) CHECK((a) < (b))
#define CHECK_LE(a, b) CHECK((a) <= (b))
#define CHECK_GT(a, b) CHECK((a) > (b))
#define CHECK_GE(a, b) CHECK((a) >= (b))

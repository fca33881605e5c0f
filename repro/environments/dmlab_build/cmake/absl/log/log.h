// The part of abseil's logging that DeepMind Lab uses; Debian 12's abseil is older than this header.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace log_stand_in {

enum Severity { kINFO, kWARNING, kERROR, kFATAL, kQFATAL };

// A line for stderr, written when its statement ends. Fatal ones abort the process.
class Line {
 public:
  Line(Severity severity, const char* file, int number) : severity_(severity) {
    text_ << file << ":" << number << ": ";
  }
  ~Line() {
    if (severity_ >= kWARNING) std::fprintf(stderr, "%s\n", text_.str().c_str());
    if (severity_ >= kFATAL) std::abort();
  }
  std::ostream& text() { return text_; }

 private:
  Severity severity_;
  std::ostringstream text_;
};

}  // namespace log_stand_in

#define LOG(severity) ::log_stand_in::Line(::log_stand_in::k##severity, __FILE__, __LINE__).text()
#define LOG_IF(severity, condition) \
  for (bool log_it = static_cast<bool>(condition); log_it; log_it = false) LOG(severity)

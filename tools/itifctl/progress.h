// Shows progress on standard error: a bar on a terminal, otherwise a line per quarter.
#pragma once

#include <string>

namespace itif::ctl {

class ProgressDisplay {
 public:
  explicit ProgressDisplay(bool wanted);
  ~ProgressDisplay();  // removes the bar
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(const std::string& stage, double fraction);

 private:
  const bool wanted_;
  const bool terminal_;
  bool drawn_ = false;
  int quarter_ = -1;
};

}  // namespace itif::ctl

// Shell completion. `itifctl __complete -- WORD…` prints the candidates for the last word, one per
// line, or ":files" or ":dirs". The bash and zsh scripts only call it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace itif::ctl {

// The kind of value of an option or positional.
struct ValueHint {
  enum class Kind { kNothing, kTenant, kFile, kDirectory, kChoice };
  Kind kind = Kind::kNothing;
  std::vector<std::string> choices = {};
};
using ValueHints = std::map<const CLI::Option*, ValueHint>;

// Returns the candidates for the last of `words`, which may be empty. `words` excludes the
// program's name. `tenants` returns tenant names and is called only if they are needed.
std::vector<std::string> complete(const CLI::App& app, const ValueHints& hints,
                                  const std::vector<std::string>& words,
                                  const std::function<std::vector<std::string>()>& tenants);

// shell: "bash" or "zsh".
std::string completion_script(const std::string& shell);

}  // namespace itif::ctl

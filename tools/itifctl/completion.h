// Shell completion, decided here and not in shell: `itifctl __complete WORD…` prints the candidates for
// the last word, one a line, or ":files" or ":dirs"; the scripts only pass words and lines on.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace itif::ctl {

// What an option or positional takes.
struct ValueHint {
  enum class Kind { kNothing, kTenant, kFile, kDirectory, kChoice };
  Kind kind = Kind::kNothing;
  std::vector<std::string> choices = {};
};
using ValueHints = std::map<const CLI::Option*, ValueHint>;

// `words` without the program's name; the last one is being typed and may be empty. `tenants` is asked
// for names only if they are wanted.
std::vector<std::string> complete(const CLI::App& app, const ValueHints& hints,
                                  const std::vector<std::string>& words,
                                  const std::function<std::vector<std::string>()>& tenants);

// "bash" or "zsh".
std::string completion_script(const std::string& shell);

}  // namespace itif::ctl

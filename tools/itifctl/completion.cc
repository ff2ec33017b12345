#include "completion.h"

#include <algorithm>

namespace itif::ctl {
namespace {

constexpr const char* kBash = R"(# bash completion of itifctl: source <(itifctl completion bash)
_itifctl() {
  local cur="${COMP_WORDS[COMP_CWORD]}" IFS=$'\n' found
  found=($(itifctl __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  case "${found[0]-}" in
    :files) COMPREPLY=($(compgen -f -- "$cur")); compopt -o filenames ;;
    :dirs) COMPREPLY=($(compgen -d -- "$cur")); compopt -o filenames ;;
    *) COMPREPLY=("${found[@]}") ;;
  esac
}
complete -F _itifctl itifctl
)";

constexpr const char* kZsh = R"(#compdef itifctl
# zsh completion of itifctl: source <(itifctl completion zsh)
_itifctl() {
  local -a found
  found=("${(@f)$(itifctl __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  case "$found[1]" in
    :files) _files ;;
    :dirs) _files -/ ;;
    *) compadd -- $found ;;
  esac
}
compdef _itifctl itifctl
)";

// Finds the option named `word` in `app` or, because global options fall through, in a parent.
const CLI::Option* option_named(const CLI::App* app, const std::string& word) {
  for (; app != nullptr; app = app->get_parent()) {
    if (const CLI::Option* option = app->get_option_no_throw(word)) return option;
  }
  return nullptr;
}

const CLI::App* subcommand_named(const CLI::App* app, const std::string& word) {
  for (const CLI::App* sub : app->get_subcommands({})) {
    if (sub->get_name() == word) return sub;
  }
  return nullptr;
}

const CLI::Option* positional_at(const CLI::App* app, size_t index) {
  for (const CLI::Option* option : app->get_options()) {
    if (option->get_positional() && option->get_lnames().empty() && index-- == 0) return option;
  }
  return nullptr;
}

void add_options(const CLI::App* app, std::vector<std::string>& out) {
  for (; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->get_group().empty()) continue;  // hidden
      for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    }
  }
}

}  // namespace

std::vector<std::string> complete(const CLI::App& app, const ValueHints& hints,
                                  const std::vector<std::string>& words,
                                  const std::function<std::vector<std::string>()>& tenants) {
  const CLI::App* at = &app;
  const CLI::Option* takes_value = nullptr;
  size_t num_positionals = 0;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (takes_value != nullptr) {
      takes_value = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* option = option_named(at, word);
      if (option != nullptr && option->get_items_expected_max() > 0) takes_value = option;
    } else if (const CLI::App* sub = subcommand_named(at, word)) {
      at = sub;
    } else {
      ++num_positionals;
    }
  }
  const std::string typed = words.empty() ? "" : words.back();

  std::vector<std::string> found;
  const CLI::Option* wanted = takes_value;
  if (wanted == nullptr && typed.starts_with("-")) {
    add_options(at, found);
  } else {
    if (wanted == nullptr) {
      for (const CLI::App* sub : at->get_subcommands({})) {
        if (!sub->get_name().starts_with("_")) found.push_back(sub->get_name());
      }
      wanted = positional_at(at, num_positionals);
    }
    const auto hint = hints.find(wanted);
    if (hint != hints.end()) {
      switch (hint->second.kind) {
        case ValueHint::Kind::kNothing: break;
        case ValueHint::Kind::kTenant: found = tenants(); break;
        case ValueHint::Kind::kFile: return {":files"};
        case ValueHint::Kind::kDirectory: return {":dirs"};
        case ValueHint::Kind::kChoice: found = hint->second.choices; break;
      }
    }
  }
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(typed); });
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::string completion_script(const std::string& shell) {
  return shell == "zsh" ? kZsh : kBash;
}

}  // namespace itif::ctl

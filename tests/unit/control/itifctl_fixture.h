// Runs the itifctl program in a child process, with a server in this process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "server_fixture.h"

namespace itif::control {

struct Ran {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ItifctlTest : public ServerFixture {
 protected:
  Ran run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "itifctl");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<std::string> environment = {"XDG_CONFIG_HOME=" + (dir_ / "config"), "TZ=UTC",
                                            "ITIF_ENDPOINT=" + options_.endpoint};
    for (const std::string& variable : environment_) environment.push_back(variable);
    std::vector<char*> envp;
    for (std::string& variable : environment) envp.push_back(variable.data());
    envp.push_back(nullptr);

    const std::string out = dir_ / "out", err = dir_ / "err";
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, input_.empty() ? "/dev/null" : input_.c_str(),
                                     O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t child = 0;
    Ran ran;
    EXPECT_EQ(::posix_spawn(&child, ITIFCTL, &actions, nullptr, argv.data(), envp.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    ran.exit_code = WEXITSTATUS(status);
    ran.out = text_of(out);
    ran.err = text_of(err);
    return ran;
  }
  std::string good(const std::vector<std::string>& arguments) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err << ran.out;
    return ran.out;
  }
  // Expects the exit code, one line on standard error that contains `part`, and empty standard
  // output.
  void expect_failure(const std::vector<std::string>& arguments, int exit_code,
                      const std::string& part) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
    EXPECT_EQ(ran.out, "");
    if (exit_code != 2) {
      EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    }
  }
  void add_sentiment() {
    good({"tenant", "add", "sentiment", "--model", "/models/s", "--slo", "25ms"});
  }

  std::vector<std::string> environment_;
  std::string input_;
};

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace itif::control

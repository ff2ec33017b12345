// TCB's Algorithms 1 and 2 (section 5), line by line over plain vectors,
// with the decisions that lib/sched/das_rows.h and slotted_das.cc write down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace itif::sched::reference {

struct Task {
  size_t id = 0;  // in order of arrival
  uint32_t length = 1;
  uint64_t deadline = 0;  // 0: none
  uint32_t weight = 1;

  double utility() const { return static_cast<double>(weight) / length; }
  auto by_deadline() const {
    return std::tuple(deadline ? deadline : std::numeric_limits<uint64_t>::max(), id);
  }
};

struct Capacity {
  uint32_t num_rows = 1;        // B
  uint32_t row_tokens = 10;     // L
  size_t max_requests = 1'000;  // of the batch
};

struct Row {
  std::vector<Task> tasks;        // H_tk, in the order of the choice
  uint32_t longest_dominant = 0;  // of H_U
};

inline uint64_t tokens_of(const std::vector<Task>& tasks) {
  uint64_t tokens = 0;
  for (const Task& task : tasks) tokens += task.length;
  return tokens;
}

inline void by_utility(std::vector<Task>& tasks) {
  std::ranges::sort(tasks, [](const Task& a, const Task& b) {
    return std::tuple(-a.utility(), a.by_deadline()) < std::tuple(-b.utility(), b.by_deadline());
  });
}

// Moves the tasks that fit, in their order, from `tasks` to the row.
inline void put_greedily(std::vector<Task>& tasks, const Capacity& capacity, size_t num_others,
                         Row& row) {
  std::erase_if(tasks, [&](const Task& task) {
    const bool fits = tokens_of(row.tasks) + task.length <= capacity.row_tokens &&
                      num_others + row.tasks.size() < capacity.max_requests;
    if (fits) row.tasks.push_back(task);
    return fits;
  });
}

// DAS(N_t, L). Removes the chosen tasks from `waiting`.
inline std::vector<Row> das(std::vector<Task>& waiting, const Capacity& capacity, double eta) {
  std::vector<Row> rows;
  size_t num_others = 0;
  for (uint32_t k = 0; k < capacity.num_rows; ++k) {  // line 3
    Row& row = rows.emplace_back();
    by_utility(waiting);
    if (tokens_of(waiting) <= capacity.row_tokens &&
        num_others + waiting.size() <= capacity.max_requests) {  // lines 4 and 5
      for (const Task& task : waiting)
        row.longest_dominant = std::max(row.longest_dominant, task.length);
      row.tasks = std::exchange(waiting, {});
      break;
    }
    std::vector<Task> fitting, others;  // N~_t is `fitting`
    for (const Task& task : waiting)
      (task.length <= capacity.row_tokens ? fitting : others).push_back(task);
    size_t s = 0;
    for (uint64_t tokens = 0; s < fitting.size(); ++s) {
      tokens += fitting[s].length;
      if (tokens > capacity.row_tokens || num_others + s == capacity.max_requests) break;
    }
    ptrdiff_t p = 0;  // the least with p / s ≥ η
    while (s > 0 && static_cast<double>(p) / static_cast<double>(s) < eta) ++p;
    double sum = 0;
    for (ptrdiff_t i = 0; i < p; ++i) {  // N~_U
      row.tasks.push_back(fitting[static_cast<size_t>(i)]);
      sum += row.tasks.back().utility();
      row.longest_dominant = std::max(row.longest_dominant, row.tasks.back().length);
    }
    fitting.erase(fitting.begin(), fitting.begin() + p);
    if (p > 0) {
      std::vector<Task> urgent, rest;  // N~_D and the last part
      for (const Task& task : fitting)
        (task.utility() >= (1 - eta) * (sum / static_cast<double>(p)) ? urgent : rest)
            .push_back(task);
      std::ranges::sort(urgent, {}, &Task::by_deadline);
      put_greedily(urgent, capacity, num_others, row);
      rest.insert(rest.end(), urgent.begin(), urgent.end());
      by_utility(rest);
      put_greedily(rest, capacity, num_others, row);
      fitting = rest;
    }
    waiting = others;
    waiting.insert(waiting.end(), fitting.begin(), fitting.end());
    num_others += row.tasks.size();
  }
  return rows;
}

// Slotted_DAS(N_t, L). Returns the slot size. Tasks that fit no slot go back to `waiting`.
inline uint32_t slotted_das(std::vector<Task>& waiting, const Capacity& capacity, double eta,
                            std::vector<Row>& rows) {
  rows = das(waiting, capacity, eta);
  uint32_t slot_size = 1;
  for (const Row& row : rows) slot_size = std::max(slot_size, row.longest_dominant);
  for (Row& row : rows) {
    std::vector<uint32_t> slots(std::max(1u, capacity.row_tokens / slot_size));  // tokens in each
    std::erase_if(row.tasks, [&](const Task& task) {
      for (uint32_t& tokens : slots) {
        if (tokens + task.length > slot_size) continue;
        tokens += task.length;
        return false;
      }
      waiting.push_back(task);
      return true;
    });
  }
  return slot_size;
}

}  // namespace itif::sched::reference

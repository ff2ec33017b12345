#include "support/exhaustive.h"

#include <algorithm>
#include <limits>
#include <map>

#include "support/tables.h"

namespace itif::plan {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

void divide(uint32_t at, bool consecutive, std::vector<uint32_t>& group_of, uint32_t num_groups,
            const std::function<void(std::span<const uint32_t>, uint32_t)>& visit) {
  if (at == group_of.size()) return visit(group_of, num_groups);
  for (uint32_t group = consecutive && num_groups > 0 ? num_groups - 1 : 0; group <= num_groups;
       ++group) {
    group_of[at] = group;
    divide(at + 1, consecutive, group_of, std::max(num_groups, group + 1), visit);
  }
}

}  // namespace

void for_each_division(uint32_t n, bool consecutive,
                       const std::function<void(std::span<const uint32_t>, uint32_t)>& visit) {
  std::vector<uint32_t> group_of(n);
  divide(0, consecutive, group_of, 0, visit);
}

double least_tenant_cost(const CostTables& tables, std::vector<uint32_t> lengths, uint32_t max_rows,
                         bool consecutive) {
  std::sort(lengths.begin(), lengths.end());
  double least = kImpossible;
  for_each_division(
      static_cast<uint32_t>(lengths.size()), consecutive, [&](auto group_of, uint32_t num_groups) {
        double cost = 0;
        for (uint32_t group = 0; group < num_groups; ++group) {
          uint32_t size = 0, length = 0;
          for (size_t i = 0; i < lengths.size(); ++i) {
            if (group_of[i] != group) continue;
            ++size;
            length = std::max(length, lengths[i]);
          }
          cost +=
              size > 1 && size * length > max_rows ? kImpossible : gemm_ns(tables, length, size);
        }
        least = std::min(least, cost);
      });
  return least;
}

double least_call_cost(const CostTables& tables, std::vector<Shape> shapes, uint32_t max_rows,
                       bool consecutive) {
  std::sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
    return a.size != b.size ? a.size < b.size : a.length < b.length;
  });
  double least = kImpossible;
  for_each_division(static_cast<uint32_t>(shapes.size()), consecutive,
                    [&](auto group_of, uint32_t num_groups) {
                      double cost = 0;
                      for (uint32_t group = 0; group < num_groups && cost < least; ++group) {
                        uint32_t count = 0, length = 0, size = 0;
                        bool same = true;
                        for (size_t i = 0; i < shapes.size(); ++i) {
                          if (group_of[i] != group) continue;
                          same = same && (count == 0 || size == shapes[i].size);
                          size = shapes[i].size;
                          length = std::max(length, shapes[i].length);
                          ++count;
                        }
                        if (count == 1)
                          cost += gemm_ns(tables, length, size);
                        else if (!same || tables.counts.empty() || count * size * length > max_rows)
                          cost += kImpossible;
                        else
                          cost += batched_gemm_ns(tables, length, count, size);
                      }
                      least = std::min(least, cost);
                    });
  return least;
}

double LeastPlanCost::of(const std::vector<Item>& items) {
  std::map<uint32_t, std::vector<uint32_t>> lengths;
  for (const Item& item : items) lengths[item.slot].push_back(item.num_tokens);
  double least = kImpossible;
  std::vector<std::pair<uint32_t, uint32_t>> shapes;
  const std::function<void(decltype(lengths)::const_iterator)> divide_from = [&](auto tenant) {
    if (tenant == lengths.end()) {
      auto sorted = shapes;
      std::sort(sorted.begin(), sorted.end());
      const auto [at, is_new] = known_.try_emplace(sorted, 0);
      if (is_new) {
        std::vector<Shape> all;
        for (const auto& [length, size] : sorted) all.push_back({length, size});
        at->second = least_call_cost(tables_, all, max_rows_, false);
      }
      least = std::min(least, at->second);
      return;
    }
    const std::vector<uint32_t>& own = tenant->second;
    for_each_division(static_cast<uint32_t>(own.size()), false, [&](auto group_of, uint32_t num) {
      const size_t before = shapes.size();
      shapes.resize(before + num);
      bool fits = true;
      for (size_t i = 0; i < own.size(); ++i) {
        auto& [length, size] = shapes[before + group_of[i]];
        length = std::max(length, own[i]);
        ++size;
      }
      for (size_t i = before; i < shapes.size(); ++i)
        fits = fits && (shapes[i].second == 1 || shapes[i].first * shapes[i].second <= max_rows_);
      if (fits) divide_from(std::next(tenant));
      shapes.resize(before);
    });
  };
  divide_from(lengths.begin());
  return least;
}

double cost_of(const CostTables& tables, const Plan& plan) {
  double cost = 0;
  for (const Call& call : plan.calls) {
    const MiniBatch& batch = plan.mini_batches[call.first_mini_batch];
    const uint32_t length = plan.segments[batch.first_segment].num_rows;
    cost += call.num_mini_batches == 1
                ? gemm_ns(tables, length, batch.num_segments)
                : batched_gemm_ns(tables, length, call.num_mini_batches, batch.num_segments);
  }
  return cost;
}

std::vector<Shape> mini_batch_shapes(const Plan& plan) {
  std::vector<Shape> shapes;
  for (const MiniBatch& batch : plan.mini_batches)
    shapes.push_back({plan.segments[batch.first_segment].num_rows, batch.num_segments});
  return shapes;
}

void for_each_batch(uint32_t max_requests, const std::vector<uint32_t>& lengths,
                    uint32_t num_tenants,
                    const std::function<void(const std::vector<Item>&)>& visit) {
  const auto num_kinds = static_cast<uint32_t>(lengths.size()) * num_tenants;
  std::vector<Item> items;
  const std::function<void(uint32_t)> extend = [&](uint32_t from) {
    if (!items.empty()) visit(items);
    if (items.size() == max_requests) return;
    for (uint32_t kind = from; kind < num_kinds; ++kind) {
      items.push_back(
          {kind / static_cast<uint32_t>(lengths.size()), lengths[kind % lengths.size()]});
      extend(kind);
      items.pop_back();
    }
  };
  extend(0);
}

}  // namespace itif::plan

#include "support/tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace itif::plan {
namespace {

size_t index_of(const std::vector<uint32_t>& axis, uint32_t value) {
  const auto at = std::find(axis.begin(), axis.end(), value);
  if (at == axis.end()) throw std::out_of_range("no such bucket");
  return static_cast<size_t>(at - axis.begin());
}

std::vector<uint32_t> numbers(uint32_t from, uint32_t to) {
  std::vector<uint32_t> axis(to + 1 - from);
  std::iota(axis.begin(), axis.end(), from);
  return axis;
}

CostTables random_tables(const std::vector<uint32_t>& lengths, uint32_t max_requests, uint64_t seed,
                         double scale_batched) {
  Random random(seed);
  return full_tables(
      lengths, max_requests,
      [&](uint32_t, uint32_t batch) { return 1 + batch * 9 * random.uniform(); },
      [&](uint32_t, uint32_t count, uint32_t size) {
        return 1 + scale_batched * count * size * 9 * random.uniform();
      });
}

}  // namespace

CostTables full_tables(const std::vector<uint32_t>& lengths, uint32_t max_requests,
                       const std::function<double(uint32_t, uint32_t)>& gemm,
                       const std::function<double(uint32_t, uint32_t, uint32_t)>& batched_gemm) {
  CostTables tables;
  tables.device = "a device";
  tables.backbone = "a backbone";
  tables.lengths = lengths;
  tables.batches = numbers(1, max_requests);
  if (batched_gemm) {
    tables.counts = numbers(2, std::max(2u, max_requests));
    tables.sizes = numbers(1, max_requests);
  }
  for (const uint32_t length : lengths) {
    for (const uint32_t batch : tables.batches) tables.gemm_ns.push_back(gemm(length, batch));
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes)
        tables.batched_gemm_ns.push_back(batched_gemm(length, count, size));
  }
  return tables;
}

std::vector<NamedTables> many_tables(const std::vector<uint32_t>& lengths, uint32_t max_requests) {
  const auto make = [&](auto gemm, auto batched) {
    return full_tables(lengths, max_requests, gemm, batched);
  };
  const auto affine = [](double launch, double a_row) {
    return [=](uint32_t length, uint32_t batch) { return launch + a_row * length * batch; };
  };
  const auto affine_batched = [](double launch, double a_row) {
    return [=](uint32_t length, uint32_t count, uint32_t size) {
      return launch + a_row * length * count * size;
    };
  };
  // Like a GPU: rows are computed in tiles of 8, four tiles at a time.
  const auto tiles = [](double rows) { return 20 + 10 * std::ceil(std::ceil(rows / 8) / 4); };
  std::vector<NamedTables> all = {
      {"launches are free", true, make(affine(0.001, 1), affine_batched(0.001, 1))},
      {"launches are expensive", true, make(affine(1000, 1), affine_batched(1000, 1))},
      {"launches cost as much as rows", true, make(affine(12, 1), affine_batched(13, 1.1))},
      {"merging never pays", true, make(affine(12, 1), affine_batched(13, 100))},
      {"merging is free", true, make(affine(12, 1), affine_batched(0.5, 1e-6))},
      {"no BatchedGEMM", true, full_tables(lengths, max_requests, affine(12, 1), nullptr)},
      {"tiles", true,
       make([&](uint32_t l, uint32_t b) { return tiles(l * b); },
            [&](uint32_t l, uint32_t c, uint32_t s) {
              return tiles(c * 8 * std::ceil(l * s / 8.0));
            })},
      // Costs fall with length: the planners are optimal only among consecutive mini-batches.
      {"falling with length", false,
       make([](uint32_t l, uint32_t b) { return 1 + 100.0 * b / l; },
            [](uint32_t l, uint32_t c, uint32_t s) { return 2 + 90.0 * c * s / l; })},
      // Only pairs are cheap: a third member of a mini-batch or call is very expensive.
      {"pairs", true,
       make([](uint32_t l, uint32_t b) { return b == 2 ? 1.5 * l : 1e4 * b + l; },
            [](uint32_t l, uint32_t c, uint32_t s) { return c == 2 ? 2.0 * l * s : 1e6 * c + l; })},
  };
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    CostTables tables = random_tables(lengths, max_requests, seed, 0.4 * static_cast<double>(seed));
    all.push_back({"random " + std::to_string(seed), false, tables});
    make_monotone(tables);
    all.push_back({"random, made monotone " + std::to_string(seed), true, std::move(tables)});
  }
  return all;
}

double gemm_ns(const CostTables& tables, uint32_t length, uint32_t batch) {
  return tables.gemm_ns.at(index_of(tables.lengths, length) * tables.batches.size() +
                           index_of(tables.batches, batch));
}

double batched_gemm_ns(const CostTables& tables, uint32_t length, uint32_t count, uint32_t size) {
  return tables.batched_gemm_ns.at(
      (index_of(tables.lengths, length) * tables.counts.size() + index_of(tables.counts, count)) *
          tables.sizes.size() +
      index_of(tables.sizes, size));
}

}  // namespace itif::plan

// The floor of a whole pass: its GEMMs alone, in the fastest of several orders.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/error.h"
#include "limits/bare_types.h"

namespace itif::bench {

using MakeBare = std::function<Result<std::unique_ptr<Bare>>()>;

// Makes the work in every way and returns the fastest. At most two exist at the same time, because
// each has weights of its own. Ways that the hardware does not support are left out. REQUIRES: the
// first way is supported. Errors: those of making.
Result<std::unique_ptr<Bare>> fastest_floor(const std::vector<MakeBare>& ways);

// Divides an order whose groups have one GEMM of each tenant into one order per tenant.
// REQUIRES: all groups have the same number of GEMMs.
std::vector<GemmOrder> orders_by_tenant(const GemmOrder& order);
// Joins them: each tenant's GEMMs, one tenant after another.
GemmOrder one_after_another(const std::vector<GemmOrder>& by_tenant);

}  // namespace itif::bench

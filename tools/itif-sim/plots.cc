#include "plots.h"

#include <fmt/format.h>

#include <filesystem>

#include "report/gnuplot.h"

namespace itif::sim {

Status draw(const bench::Figure& figure, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(Code::kPermission, fmt::format("{}: {}", directory, error.message()));
  ITIF_TRY(bench::write_figure(figure, directory));
  ITIF_TRY(bench::draw_figure(figure, directory));
  fmt::print(stderr, "{}/{}.svg\n", directory, figure.name);
  return {};
}

}  // namespace itif::sim

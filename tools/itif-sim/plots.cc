#include "plots.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "report/gnuplot.h"
#include "report/write_text.h"

namespace itif::sim {

Status make_writable(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return fail(Code::kPermission,
                fmt::format("cannot make the directory {}: {}", directory, error.message()));
  const std::string probe = fmt::format("{}/.itif-sim-{}", directory, ::getpid());
  ITIF_TRY(bench::write_text(probe, "This directory can be written.\n"));
  std::filesystem::remove(probe, error);
  return {};
}

Status draw(const bench::Figure& figure, const std::string& directory) {
  ITIF_TRY(make_writable(directory));
  ITIF_TRY(bench::write_figure(figure, directory));
  ITIF_TRY(bench::draw_figure(figure, directory));
  fmt::print(stderr, "{}/{}.svg\n", directory, figure.name);
  return {};
}

}  // namespace itif::sim

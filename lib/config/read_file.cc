#include "config/read_file.h"

#include <libconfig.h++>

namespace itif::config {
namespace {

Status read(const libconfig::Config& settings, const std::string& path,
            const std::function<void(Report&, Reader&)>& visit) {
  Report report{path, {}};
  Reader root(report, settings.getRoot(), "");
  visit(report, root);
  root.refuse_unknown();
  if (report.error) return std::unexpected(std::move(*report.error));
  return {};
}

}  // namespace

Status read_file(const std::string& path, const std::string& example,
                 const std::function<void(Report&, Reader&)>& visit) {
  libconfig::Config file;
  try {
    file.readFile(path.c_str());
  } catch (const libconfig::FileIOException&) {
    return fail(
        Code::kNotFound,
        fmt::format("{}: cannot be read: check that the file exists and may be read by this "
                    "user ({} is an example)",
                    path, example));
  } catch (const libconfig::ParseException& error) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}:{}: {}", error.getFile() ? error.getFile() : path.c_str(),
                            error.getLine(), error.getError()));
  }
  return read(file, path, visit);
}

Status read_text(const std::string& text, const std::function<void(Report&, Reader&)>& visit) {
  libconfig::Config settings;
  try {
    settings.readString(text);
  } catch (const libconfig::ParseException& error) {
    return fail(Code::kInvalidArgument, error.getError());
  }
  return read(settings, "", visit);
}

}  // namespace itif::config

// Prints reports, and saves one that cannot be printed.
#include "delivery.hpp"

#include <fmt/format.h>

#include <utility>

#include "numbers.hpp"

namespace everkernel::cli {
namespace {

// Where the files of the folder are, in words.
std::string files_text(const Delivery& delivery) {
  if (delivery.folder == nullptr) return "no files were asked for";
  const std::string folder = in_quotes(delivery.folder->path());
  const std::size_t count = delivery.folder->committed();
  if (delivery.files_written) return fmt::format("the files are in {}", folder);
  if (count == 0) return fmt::format("no file in {} was changed", folder);
  return fmt::format("in {} only the first {} changed", folder,
                     count == 1 ? "file was" : fmt::format("{} files were", count));
}

// Writes the report beside the files, in place of none of them; gives its path.
Result<std::string> save(const Delivery& delivery) {
  if (delivery.folder == nullptr || !delivery.files_written) return fail(Code::io, "no folder");
  const auto bytes = std::as_bytes(std::span(delivery.report));
  const std::string name = delivery.folder->free_name(delivery.report_name);
  if (name.empty()) return fail(Code::io, "no name is free");
  std::string path = EVERKERNEL_TRY(delivery.folder->stage(name, {bytes}));
  EVERKERNEL_TRY(delivery.folder->commit());
  return path;
}

}  // namespace

Ending deliver(const Delivery& delivery) {
  const auto printed = print(delivery.report);
  if (printed && delivery.files_written) return delivery.ending;
  if (printed) {
    say({.code = Code::io,
         .message = delivery.files_written.error().message,
         .hint = fmt::format("the items have run: the report is on standard output, {}",
                             files_text(delivery))});
    return Ending::undelivered;
  }
  std::string message = printed.error().message;
  if (!delivery.files_written) message += "; " + delivery.files_written.error().message;
  const auto saved = save(delivery);
  const std::string where = saved ? fmt::format("in {}", in_quotes(*saved)) : "below";
  say({.code = Code::io,
       .message = std::move(message),
       .hint =
           fmt::format("the items have run: {}, the report is {}", files_text(delivery), where)});
  if (!saved) say(delivery.report);
  return Ending::undelivered;
}

Ending deliver_text(std::string_view text) {
  const auto printed = print(text);
  if (printed) return Ending::done;
  say(printed.error());
  return Ending::undelivered;
}

}  // namespace everkernel::cli

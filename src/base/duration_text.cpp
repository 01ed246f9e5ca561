// Chooses the unit of a length of time.
#include "everkernel/base/duration_text.hpp"

#include <fmt/format.h>

namespace everkernel {
namespace {

struct Unit {
  const char* name;
  std::int64_t nanoseconds;
};

// Smallest first.
constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};

}  // namespace

std::string duration_text(std::chrono::nanoseconds duration) {
  using std::chrono::duration_cast;
  const auto minutes = duration_cast<std::chrono::minutes>(duration).count();
  if (minutes >= 120) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  if (minutes >= 2) {
    const auto seconds = duration_cast<std::chrono::seconds>(duration).count();
    return fmt::format("{} min {} s", minutes, seconds % 60);
  }
  const Unit* unit = &kUnits[0];
  for (const Unit& larger : kUnits) {
    if (duration.count() >= larger.nanoseconds) unit = &larger;
  }
  if (duration.count() % unit->nanoseconds == 0) {
    return fmt::format("{} {}", duration.count() / unit->nanoseconds, unit->name);
  }
  const double number =
      static_cast<double>(duration.count()) / static_cast<double>(unit->nanoseconds);
  const int decimals = number >= 100 ? 0 : number >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", number, decimals, unit->name);
}

}  // namespace everkernel

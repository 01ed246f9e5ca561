// The memory limits of control groups, versions 1 and 2.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "everkernel/memory/available.hpp"

namespace everkernel::memory {

/// What the tightest group leaves, of the groups that `membership` (the text of /proc/self/cgroup)
/// names and all groups above them. `root` is the folder that /sys/fs/cgroup is. Nothing if no
/// group has a limit.
std::optional<Available> available_in_groups(std::string_view membership,
                                             const std::filesystem::path& root);

}  // namespace everkernel::memory

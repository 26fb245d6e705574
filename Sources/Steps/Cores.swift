import Foundation
import Model

/// The number of processors that this process may use.
package enum Cores {
  /// The lower limit of the affinity mask and the control group; at least 1.
  package static var available: Int {
    let allowed = ProcessInfo.processInfo.activeProcessorCount
    let groups = (try? String(contentsOfFile: "/proc/self/cgroup", encoding: .utf8)) ?? ""
    let quota = quota(groups: groups) { try? String(contentsOfFile: "/sys/fs/cgroup" + $0, encoding: .utf8) }
    return max(1, min(allowed, quota.map { Int($0.rounded(.up)) } ?? allowed))
  }

  /// The CPU quota of the control groups, in processors: the lowest of the group and its ancestors; `nil` where none has a limit.
  ///
  /// - Parameter groups: The contents of /proc/self/cgroup.
  /// - Parameter read: Returns the contents of a file below /sys/fs/cgroup.
  static func quota(groups: String, read: (String) -> String?) -> Double? {
    var least: Double?
    func note(_ quota: Double?, _ period: Double?) {
      guard let quota, let period, quota > 0, period > 0 else { return }
      least = min(least ?? .infinity, quota / period)
    }
    for line in groups.split(separator: "\n") {
      // Hierarchy, controllers, path.
      let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard fields.count == 3 else { continue }
      let isUnified = fields[0] == "0" && fields[1].isEmpty
      guard isUnified || fields[1].split(separator: ",").contains("cpu") else { continue }
      // In a container, the path is the host's and the group's files are at the root.
      var parts = fields[2].split(separator: "/").filter { $0 != ".." }
      while true {
        let folder = parts.isEmpty ? "" : "/" + parts.joined(separator: "/")
        if isUnified {
          let numbers = read(folder + "/cpu.max")?.split(whereSeparator: \.isWhitespace).map { Double($0) } ?? []
          if numbers.count == 2 { note(numbers[0], numbers[1]) }
        } else {
          func number(_ name: String) -> Double? {
            read("/cpu" + folder + "/" + name).flatMap { Double($0.trimmingCharacters(in: .whitespacesAndNewlines)) }
          }
          note(number("cpu.cfs_quota_us"), number("cpu.cfs_period_us"))
        }
        if parts.isEmpty { break }
        parts.removeLast()
      }
    }
    return least
  }
}

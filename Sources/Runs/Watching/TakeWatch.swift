import Foundation
import Model
import Steps

/// The takes among the inputs of a watch, and which of them have come to rest: nothing in them has changed for some time, and their own
/// listing agrees with their files.
///
/// Keeps one small entry for each take, and one for each other file that no reader recognizes.
struct TakeWatch {
  /// The result of one look at the inputs.
  struct Look {
    /// Takes that have come to rest since they were last given out.
    var ready: [String] = []
    /// Takes given out before that must be compared with one that is ready: an archive and the folder of the same name.
    var counterparts: [String] = []
    /// Takes that have not become complete for a long time, with the reason; each is named once for every change of its files.
    var stalled: [(path: String, reason: String)] = []
    /// Places that are not read, with the reason; each is named once.
    var notices: [String] = []
    /// Takes that still change or are not complete.
    var waiting = 0
    var incomplete = 0
    /// Inputs and directories that cannot be searched now.
    var unreachable: Set<String> = []
    /// Directories in which takes can appear.
    var containers: Set<String> = []
  }

  private struct Seen {
    var fingerprint: Int
    /// Time at which the fingerprint was first seen, and the take, in seconds of the system's uptime.
    var since: Double
    var firstSeen: Double
    var state = State.changing
    var isNamed = false
    /// Paths of other files that belong to the take, and are no takes of their own.
    var companions: [String] = []
  }

  private enum State: Equatable {
    case changing
    case incomplete(String)
    /// Given out for conversion.
    case done
  }

  let inputs: [String]
  private let places: TakeWalk
  /// Seconds without a change after which files rest.
  let settle: Double
  /// Seconds after which a take that is not complete is named.
  var patience: Double { 60 * settle }

  private var seen: [String: Seen] = [:]
  /// Files that no reader recognizes, which need not be opened again while they are unchanged. What a JSON file is may depend on the names next
  /// to it.
  private var ignored: [String: Int] = [:]
  /// Directories that hold takes of one file.
  private var folders: [String: (fingerprint: Int, since: Double)] = [:]
  private var unreachable: Set<String> = []
  private var noticed: Set<String> = []
  /// The path of each input without links, when it was last there.
  private var resolved: [String: String] = [:]

  init(inputs: [String], readers: [any Reader], settle: Double) {
    (self.inputs, places, self.settle) = (inputs, TakeWalk(readers: readers), settle)
  }

  /// Whether a take is among the inputs, or was and cannot be looked for now.
  func isStanding(_ path: String) -> Bool { seen[path] != nil || isUnreachable(path) }

  /// Whether a take was given out for conversion and has not changed since.
  func isAtRest(_ path: String) -> Bool { seen[path]?.state == .done }

  /// A copy of the answers of `isStanding`, for other threads.
  var standing: @Sendable (String) -> Bool { { [self] in isStanding($0) } }

  private func isUnreachable(_ path: String) -> Bool { unreachable.contains { path == $0 || path.hasPrefix($0 + "/") } }

  /// Gives takes out again, because they were not converted.
  mutating func giveBack(_ paths: [String]) {
    for path in paths { seen[path]?.state = .changing }
  }

  /// Looks at the inputs.
  ///
  /// - Parameters:
  ///   - limit: The most takes to give out.
  ///   - isComplete: Whether to look also at the files of takes that were given out, which may have changed since.
  mutating func look(now: Double, limit: Int, isComplete: Bool) -> Look {
    var walk = Walk(now: now, limit: limit, isComplete: isComplete, companions: companions)
    for input in inputs {
      guard let real = realpath(input, nil) else {
        walk.look.unreachable.insert(resolved[input] ?? Directory.absolute(input))
        continue
      }
      defer { free(real) }
      let path = String(cString: real)
      resolved[input] = path
      walk.roots.insert(path)
      guard let kind = try? Directory.kind(at: path) else {
        walk.look.unreachable.insert(path)
        continue
      }
      visit(TakeLocation(path: path, isDirectory: kind == .directory), depth: 0, &walk)
    }
    unreachable = walk.look.unreachable
    walk.look.notices = walk.notices.subtracting(noticed).sorted()
    noticed = walk.notices
    let companions = companions, present = walk.present.subtracting(companions)
    walk.look.ready.removeAll(where: companions.contains)
    for path in seen.keys where !present.contains(path) && !isUnreachable(path) { seen[path] = nil }
    for path in ignored.keys where !walk.files.contains(path) { ignored[path] = nil }
    for path in folders.keys where !walk.visitedFolders.contains(path) { folders[path] = nil }
    walk.look.counterparts = counterparts(of: walk.look.ready)
    return walk.look
  }

  private struct Walk {
    let now: Double
    let limit: Int
    let isComplete: Bool
    /// Files that belonged to takes when the walk began.
    let companions: Set<String>
    var look = Look()
    var roots: Set<String> = []
    var present: Set<String> = []
    var files: Set<String> = []
    var notices: Set<String> = []
    var visited: Set<String> = []
    var visitedFolders: Set<String> = []
  }

  private mutating func visit(_ place: TakeLocation, depth: Int, _ walk: inout Walk) {
    // A folder in which a take has files may have other takes, too.
    if !place.isDirectory, walk.companions.contains(place.path) { return }
    guard walk.visited.insert(place.path).inserted else { return }
    if !walk.isComplete, seen[place.path]?.state == .done {
      walk.present.insert(place.path)
      return
    }
    var stamp: FileStamp?
    var surroundings = 0
    if !place.isDirectory {
      // A file that is gone again, a link or a pipe is no take.
      guard let found = try? FileStamp.of(place.path) else { return }
      stamp = found
      let isList = place.name.hasSuffix(".json")
      surroundings = [found, isList ? FileStamp.ofFolder(around: place.path) : nil].hashValue
      if !(isList && walk.isComplete), ignored[place.path] == surroundings {
        walk.files.insert(place.path)
        return
      }
    }
    do {
      switch try places.place(at: place) {
      case .take(let claim, _):
        observe(place, stamp, claim.candidate.companions, &walk) {
          try TakeCompleteness.obstacle(place, claim.reader, hasRestedLong: $0)
        }
      case .foreign(let failure): walk.notices.insert("\(place.path.onOneLine): \(failure.message)")
      case .other where place.isDirectory: search(place, depth: depth, &walk)
      case .recovery, .other:
        if place.isDirectory { return }
        ignored[place.path] = surroundings
        walk.files.insert(place.path)
      }
    } catch {
      if place.isDirectory {
        fail(place, error, depth, &walk)
      } else {
        let reason = TakeCompleteness.words(error)
        observe(place, stamp, [], &walk) { _ in reason }
      }
    }
  }

  private mutating func search(_ place: TakeLocation, depth: Int, _ walk: inout Walk) {
    walk.look.containers.insert(place.path)
    if let notice = TakeWalk.notice(place, depth: depth) { return _ = walk.notices.insert(notice) }
    do {
      for member in try Directory.members(of: place.path) where !member.name.hasPrefix(".") {
        let path = place.path + "/" + member.name
        switch member.kind {
        case .directory, .file: visit(TakeLocation(path: path, isDirectory: member.kind == .directory), depth: depth + 1, &walk)
        case .link, .other, .unnameable: walk.notices.insert(TakeWalk.notice(member.kind, path))
        }
      }
    } catch {
      fail(place, error, depth, &walk)
    }
  }

  /// Notes a directory that cannot be searched: takes that were found in it keep their place, unless somebody has just removed it.
  private func fail(_ place: TakeLocation, _ error: any Error, _ depth: Int, _ walk: inout Walk) {
    if depth > 0, let error = error as? FileError, [ENOENT, ENOTDIR].contains(error.code) { return }
    walk.look.unreachable.insert(place.path)
  }

  /// Notes the state of a take's files, and gives it out if they rest and nothing is missing.
  private mutating func observe(
    _ place: TakeLocation, _ stamp: FileStamp?, _ companions: [String], _ walk: inout Walk,
    _ obstacle: (_ hasRestedLong: Bool) throws -> String?
  ) {
    let path = place.path
    walk.present.insert(path)
    // What cannot be listed, as a folder that is being moved away, is looked at again.
    guard let tree = try? TakeTree(place, stamp, companions: companions) else { return }
    var entry = seen[path] ?? Seen(fingerprint: tree.fingerprint, since: walk.now, firstSeen: walk.now)
    if entry.fingerprint != tree.fingerprint {
      entry = Seen(fingerprint: tree.fingerprint, since: walk.now, firstSeen: entry.state == .done ? walk.now : entry.firstSeen)
    }
    entry.companions = companions
    defer { seen[path] = entry }
    if entry.state == .done { return }
    let isRested = walk.now - entry.since >= settle && restsAround(place, &walk)
    if isRested, entry.state == .changing || walk.isComplete {
      let reason: String?
      if let name = tree.unfinished {
        reason = "\(name) is still being written, by its name"
      } else {
        do { reason = try obstacle(walk.now - entry.since >= 6 * settle) } catch { reason = TakeCompleteness.words(error) }
      }
      if let reason {
        entry.state = .incomplete(reason)
      } else if walk.look.ready.count < walk.limit {
        entry.state = .done
        walk.look.ready.append(path)
        return
      }
    }
    walk.look.waiting += 1
    var reason = "its files are still changing"
    if case .incomplete(let words) = entry.state {
      walk.look.incomplete += 1
      reason = words
    } else if isRested {
      return
    }
    if !entry.isNamed, walk.now - (entry.state == .changing ? entry.firstSeen : entry.since) >= patience {
      entry.isNamed = true
      walk.look.stalled.append((path, reason))
    }
  }

  /// Whether everything in the directory of a take of one file rests, so that a movie is not taken out of a folder that is still being
  /// copied. Files directly in an input rest alone.
  private mutating func restsAround(_ place: TakeLocation, _ walk: inout Walk) -> Bool {
    guard !place.isDirectory, !walk.roots.contains(place.path) else { return true }
    let folder = URL(fileURLWithPath: place.path).deletingLastPathComponent().path
    guard !walk.roots.contains(folder) else { return true }
    if walk.visitedFolders.insert(folder).inserted {
      guard let tree = try? TakeTree(TakeLocation(path: folder, isDirectory: true), nil) else { return false }
      if folders[folder]?.fingerprint != tree.fingerprint { folders[folder] = (tree.fingerprint, walk.now) }
    }
    return folders[folder].map { walk.now - $0.since >= settle } ?? false
  }

  /// The paths of files that belong to takes.
  private var companions: Set<String> { Set(seen.values.lazy.flatMap(\.companions)) }

  private func counterparts(of ready: [String]) -> [String] {
    ready.flatMap { path -> [String] in
      let stem = URL(fileURLWithPath: path).deletingPathExtension().path
      let others = [".zip", ".tar", ".ZIP", ".TAR", ".Zip", ".Tar"].map { path + $0 } + (stem == path ? [] : [stem])
      return others.filter { seen[$0]?.state == .done && !ready.contains($0) }
    }
  }
}

/// Whether a take whose files rest has all the files that it lists.
enum TakeCompleteness {
  /// Returns the part that is still missing, as a sentence; `nil` for a take that is complete. Throws the reason that the take cannot be
  /// listed at all.
  static func obstacle(_ place: TakeLocation, _ reader: any Reader, hasRestedLong: Bool) throws -> String? {
    let inputs = try reader.inputs(of: place)
    _ = try inputs.stamp()
    if inputs.archive != nil { return nil }
    return try reader.missing(in: inputs, hasRestedLong: hasRestedLong)
  }

  static func words(_ error: any Error) -> String {
    switch error {
    case let error as TakeFailure: error.description
    case let error as FileError: error.failure().description
    default: "\(error)"
    }
  }
}

import Foundation

/// Takes found among the inputs, and inputs in which there was none.
package struct TakeSearch: Sendable {
  package struct Found: Sendable {
    package var id: String
    package var location: TakeLocation
    package var reader: any Reader
    /// What the search itself noticed, such as another take of the same name.
    package var findings: [Finding] = []
  }

  /// An input that gives no take: its entry in the manifest is `failed`.
  package struct Missed: Sendable {
    package var id: String
    package var path: String
    package var failure: TakeFailure
  }

  package private(set) var found: [Found] = []
  package private(set) var missed: [Missed] = []
  /// Sentences for the log.
  package private(set) var notices: [String] = []

  private static let depthLimit = 64
  private let readers: [any Reader]
  private var used: Set<String> = []
  private var visited: Set<String> = []
  private var isTaken: @Sendable (String, TakeLocation) -> Bool

  /// - Parameter isTaken: Whether an id belongs to another take already, which this run may not see.
  package init(
    inputs: [String], readers: [any Reader], isTaken: @escaping @Sendable (String, TakeLocation) -> Bool = { _, _ in false }
  ) {
    self.readers = readers
    self.isTaken = isTaken
    for input in inputs { search(input) }
    found.sort { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    missed.sort { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
  }

  /// True when not one input is even there: a mistyped command rather than a bad take.
  package var isHopeless: Bool {
    found.isEmpty && missed.allSatisfy { ["input-missing", "not-a-take"].contains($0.failure.code) }
  }

  private mutating func search(_ input: String) {
    guard let real = realpath(input, nil) else {
      return miss(input, TakeFailure("input-missing", "there is no such file or directory: \(input)"))
    }
    defer { free(real) }
    let path = String(cString: real)
    let isDirectory = Directory.existingKind(of: path) == .directory
    if visited.contains(path) { return }
    let before = found.count
    let problems = missed.count
    look(at: TakeLocation(path: path, isDirectory: isDirectory), depth: 0)
    guard found.count == before, missed.count == problems else { return }
    if isDirectory {
      miss(input, TakeFailure("no-take-found", "the directory \(input) holds no take that a reader recognises"))
    } else {
      miss(input, TakeFailure("not-a-take", "\(input) is a file that no reader recognises; expected a session directory"))
    }
  }

  private mutating func look(at place: TakeLocation, depth: Int) {
    // Inputs may overlap.
    guard visited.insert(place.path).inserted else { return }
    if let reader = readers.first(where: { $0.recognises(place) }) { return add(place, reader) }
    guard place.isDirectory else { return }
    guard depth < Self.depthLimit else {
      notices.append("\(place.path) is nested deeper than \(Self.depthLimit) directories and is not searched")
      return
    }
    do {
      for member in try Directory.members(of: place.path) where !member.name.hasPrefix(".") {
        let path = place.path + "/" + member.name
        switch member.kind {
        case .directory: look(at: TakeLocation(path: path, isDirectory: true), depth: depth + 1)
        case .file: look(at: TakeLocation(path: path, isDirectory: false), depth: depth + 1)
        case .link: notices.append("\(path) is a symbolic link and is not followed; name it as an input to read it")
        case .other: notices.append("\(path) is neither a file nor a directory and is not read")
        }
      }
    } catch {
      miss(place.path, TakeFailure("permission", "\(error)"))
    }
  }

  private mutating func add(_ place: TakeLocation, _ reader: any Reader) {
    let name = URL(fileURLWithPath: place.path).lastPathComponent
    let stem = place.isDirectory ? name : URL(fileURLWithPath: name).deletingPathExtension().lastPathComponent
    guard Self.isUsable(stem) else {
      return miss(
        place.path, TakeFailure("bad-name", "the name cannot serve as a take id; expected 1 to 200 bytes without control characters"))
    }
    let id = freeID(stem, place)
    var take = Found(id: id, location: place, reader: reader)
    if id != stem {
      take.findings.append(
        Finding(.warning, "duplicate-id", "another take is called \(stem) too; this one is called \(id)"))
    }
    found.append(take)
  }

  private mutating func miss(_ input: String, _ failure: TakeFailure) {
    let name = URL(fileURLWithPath: input).lastPathComponent
    let place = TakeLocation(path: input, isDirectory: false)
    missed.append(Missed(id: freeID(Self.isUsable(name) ? name : "unnamed", place), path: input, failure: failure))
  }

  /// `stem`, or `stem-2`, `stem-3`, … when that is another take's.
  private mutating func freeID(_ stem: String, _ place: TakeLocation) -> String {
    var id = stem
    var number = 2
    while used.contains(id) || isTaken(id, place) {
      id = "\(stem)-\(number)"
      number += 1
    }
    used.insert(id)
    return id
  }

  private static func isUsable(_ name: String) -> Bool {
    (1...200).contains(name.utf8.count) && !name.hasPrefix(".") && !name.contains("/")
      && name.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
  }
}

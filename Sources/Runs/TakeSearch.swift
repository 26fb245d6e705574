import Datasets
import Foundation
package import Model
package import Steps

/// The takes found among the inputs, and the unmatched inputs.
///
///     let search = TakeSearch(inputs: ["takes"], pipeline: pipeline)
///     for take in search.found { print(take.id, take.location.path) }
package struct TakeSearch: Sendable {
  /// A take, with the reader that is the most confident.
  package struct Found: Sendable {
    package var id: String
    package var location: TakeLocation
    package var reader: any Reader
    /// The folder next to an archive with the archive's name, if it is a take too.
    package var duplicateFolder: TakeLocation?
    /// Findings of the search itself, such as another take with the same name.
    package var findings: [Finding] = []
    /// Paths of other files that belong to the take.
    var companions: [String] = []
    /// The paths of the takes, with its own, of which it cannot be told which belong together.
    var rivals: [String]?
    /// What names say of takes of other phones at the same time.
    var session: Candidate.Session?
    /// The files of labels in its folder; `nil` for a file.
    var labelFiles: [Directory.Member]?

    var task: TakeTask {
      TakeTask(id: id, location: location, reader: reader, duplicateFolder: duplicateFolder, findings: findings)
    }
  }

  /// An unmatched input, in which there is no take; its entry in the manifest is `failed`.
  package struct Unmatched: Sendable {
    package var id: String
    package var path: String
    package var failure: TakeFailure

    var record: TakeRecord {
      TakeRecord(id: EpisodeID(take: id), reader: nil, outcome: .failed, reason: failure.description, findings: [failure.finding])
    }
  }

  package private(set) var found: [Found] = []
  /// The takes before the pipeline joined any, with the names of their places.
  private(set) var ungrouped: [Found] = []
  package private(set) var unmatched: [Unmatched] = []
  /// Folders and files of the inputs that hold no take and belong to none, in the order in which they were found.
  package private(set) var ignored = IgnoredPlaces()
  /// Messages for the log.
  package private(set) var notices: [String] = []

  private let walk: TakeWalk
  private let registry: TakeIDRegistry
  private let timing: UnixSpan.Reading
  /// Whether a step makes episodes `<take>.0`, `<take>.1` of each take, whose names no other take may have.
  private let splitsTakes: Bool
  /// Ends the digests that name takes without a name of their own; what is found then is incomplete.
  private let isCancelled: @Sendable () -> Bool
  /// Searched paths, as bytes: names that differ only in Unicode normalization are different files.
  private var visited: Set<[UInt8]> = []
  /// Whether links to directories are followed, once everything else has been searched: a take among the inputs keeps its own name.
  private let followsLinks: Bool
  private var links: [(place: TakeLocation, depth: Int)] = []
  /// Identities of the places that were searched, whatever their paths, so that no link leads in a circle or to a take a second time.
  private var identities: Set<Directory.Identity> = []
  private var isBehindLink = false
  /// Files that belong to a take of another name.
  private var companions: Set<String> = []
  /// The real paths of the inputs.
  private var roots: [String] = []
  /// Inputs in which nothing was found yet.
  private var empty: [TakeLocation] = []

  /// The takes among the inputs, as a run of the pipeline names them.
  ///
  /// - Parameter timing: Says when takes were recorded, of a pipeline that joins them by time.
  package init(
    inputs: [String], pipeline: Pipeline, followsLinks: Bool = false, registry: TakeIDRegistry = TakeIDRegistry([:]),
    timing: @escaping UnixSpan.Reading = { try UnixSpan(of: $0) }, isCancelled: @escaping @Sendable () -> Bool = { false }
  ) {
    self.init(
      inputs: inputs, readers: pipeline.candidates, followsLinks: followsLinks, registry: registry,
      splitsTakes: pipeline.transforms.contains { $0 is any EpisodeSplitter }, join: pipeline.join, timing: timing,
      isCancelled: isCancelled)
  }

  package init(
    inputs: [String], readers: [any Reader], followsLinks: Bool = false, registry: TakeIDRegistry = TakeIDRegistry([:]),
    splitsTakes: Bool = false, join: Join? = nil, timing: @escaping UnixSpan.Reading = { try UnixSpan(of: $0) },
    isCancelled: @escaping @Sendable () -> Bool = { false }
  ) {
    (walk, self.isCancelled, self.timing) = (TakeWalk(readers: readers), isCancelled, timing)
    (self.splitsTakes, self.followsLinks) = (splitsTakes, followsLinks)
    self.registry = registry
    for input in inputs { search(input) }
    followLinks()
    for input in empty { refuse(input) }
    // They may have been looked at before their take was.
    found.removeAll { !$0.location.isDirectory && companions.contains($0.location.path) }
    unmatched.removeAll { companions.contains($0.path) }
    for path in companions { ignored.remove(path) }
    findDuplicateFolders()
    if let join {
      ungrouped = found
      group(by: join)
    }
    ignored.removeSidecars(of: found)
    ignored.removeLabels(of: found)
    if let sentence = ignored.sentence { notices.append(sentence) }
    assignIDs()
    (visited, identities) = ([], [])
    found.sort { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
    unmatched.sort { $0.id.utf8.lexicographicallyPrecedes($1.id.utf8) }
  }

  /// The ids of the takes to which files belong that are next to them, by the files' paths.
  var owners: [String: String] {
    Dictionary(found.flatMap { take in take.companions.map { ($0, take.id) } }) { first, _ in first }
  }

  /// True where not one input exists or could be a take: a mistyped command rather than a bad take.
  package var hasNoInput: Bool { found.isEmpty && unmatched.allSatisfy { [.inputMissing, .notATake].contains($0.failure.code) } }

  /// The reasons why nothing is read of each input that is no take, a line each.
  package var unmatchedInWords: String { unmatched.map { "\($0.path.onOneLine): \($0.failure.message)" }.joined(separator: "\n") }

  /// Refuses, before anything is created, inputs without a take and takes that the pipeline cannot convert.
  ///
  /// - Throws: `NoInputs` when no input exists; `UsageError` when there is nothing to convert, or the pipeline lacks `align`.
  package func refuse(_ pipeline: Pipeline) throws {
    if hasNoInput { throw NoInputs(unmatchedInWords) }
    if found.isEmpty, unmatched.allSatisfy({ [.inputMissing, .notATake, .noTakeFound].contains($0.failure.code) }) {
      throw UsageError(unmatchedInWords)
    }
    try refuseWithoutAlign(pipeline)
  }

  /// Throws `UsageError` when there are takes that need the step `align`, and the pipeline does not have it.
  func refuseWithoutAlign(_ pipeline: Pipeline) throws {
    if !pipeline.transforms.contains(where: { type(of: $0).aligns }), let take = found.first(where: { type(of: $0.reader).needsAlign }) {
      throw UsageError(
        "the pipeline has no step align, which takes of \(type(of: take.reader).name) need, such as \(take.id); add \"- align: {}\" to transforms"
      )
    }
  }

  private mutating func search(_ input: String) {
    guard let real = realpath(input, nil) else {
      let error = FileError("look at", input)
      let isMissing = [ENOENT, ENOTDIR].contains(error.code)
      return addUnmatched(input, isMissing ? TakeFailure(.inputMissing, "there is no such file or directory") : error.failure())
    }
    defer { free(real) }
    let path = String(cString: real)
    let isDirectory: Bool
    do {
      isDirectory = try Directory.kind(at: path) == .directory
    } catch {
      return addUnmatched(input, (error as? FileError)?.failure() ?? TakeFailure(.unreadable, "\(error)"))
    }
    roots.append(path)
    if visited.contains(Array(path.utf8)) { return }
    let before = (found.count, unmatched.count)
    let place = TakeLocation(path: path, isDirectory: isDirectory)
    look(at: place, depth: 0)
    if (found.count, unmatched.count) == before { empty.append(place) }
  }

  private mutating func followLinks() {
    isBehindLink = true
    while !links.isEmpty {
      let (place, depth) = links.removeFirst()
      if let identity = Directory.Identity(of: place.path), identities.contains(identity) {
        notices.append("\(place.path.onOneLine) is a link to what is searched already")
        continue
      }
      let before = (found.count, unmatched.count)
      look(at: place, depth: depth)
      if (found.count, unmatched.count) != before { empty.removeAll { place.path.hasPrefix($0.path + "/") } }
    }
  }

  /// Notes an input without a take.
  private mutating func refuse(_ input: TakeLocation) {
    let path = input.path
    // The failure says it.
    ignored.remove(path)
    if input.isDirectory {
      let word = DatasetFiles.word(for: path) ?? "the directory holds no take that a reader recognizes"
      addUnmatched(
        path,
        TakeFailure(
          .noTakeFound,
          DatasetFiles.isDataset(path)
            ? "this is a dataset written by Takeset, not a directory of takes; takeset inspect shows it, takeset verify checks it"
            : [word, ignored.notFollowed, Registry.remedy(forUnrecognized: path)].compactMap(\.self).joined(separator: "; ")))
    } else if let word = DatasetFiles.word(for: path) {
      addUnmatched(path, TakeFailure(.notATake, word))
    } else {
      let formats = walk.readers.map { type(of: $0).name }.joined(separator: ", ")
      addUnmatched(
        path,
        TakeFailure(.notATake, "no reader recognizes this file; expected a session, an archive of one, a bundle or a video (\(formats))"))
    }
  }

  private mutating func look(at place: TakeLocation, depth: Int) {
    // A folder in which a take has files may have other takes, too.
    if !place.isDirectory, companions.contains(place.path) { return }
    // Inputs may overlap.
    guard visited.insert(Array(place.path.utf8)).inserted else { return }
    if followsLinks, let identity = Directory.Identity(of: place.path), !identities.insert(identity).inserted, isBehindLink { return }
    do {
      switch try walk.place(at: place) {
      case .take(let claim, let rivals): return add(place, claim, rivals: rivals)
      case .foreign(let failure): return addUnmatched(place.path, failure)
      case .recovery: return ignored.add(place)
      case .other: break
      }
    } catch {
      // A location that cannot be read may be a take; skipping it would lose it.
      return addUnmatched(place.path, (error as? FileError)?.failure() ?? error as? TakeFailure ?? TakeFailure(.unreadable, "\(error)"))
    }
    guard place.isDirectory else { return ignored.add(place) }
    let before = (found.count, unmatched.count, links.count, ignored.count)
    defer { if (found.count, unmatched.count, links.count) == (before.0, before.1, before.2) { ignored.fold(from: before.3, into: place) } }
    if let notice = TakeWalk.notice(place, depth: depth) { return notices.append(notice) }
    do {
      for member in try Directory.members(of: place.path) where !member.name.hasPrefix(".") {
        let path = place.path + "/" + member.name
        switch member.kind {
        case .directory: look(at: TakeLocation(path: path, isDirectory: true), depth: depth + 1)
        case .file: look(at: TakeLocation(path: path, isDirectory: false), depth: depth + 1)
        case .unnameable: addUnmatched(path, TakeFailure(.badName, "the name is not UTF-8"))
        case .link where (try? Directory.kind(at: path, followingLinks: true)) == .directory:
          if followsLinks {
            links.append((TakeLocation(path: path, isDirectory: true), depth + 1))
          } else {
            ignored.addLink(path)
          }
        case .link, .other: notices.append(TakeWalk.notice(member.kind, path))
        }
      }
    } catch {
      var failure = (error as? FileError)?.failure() ?? TakeFailure(.unreadable, "")
      failure.message = "the directory cannot be searched: \((error as? FileError)?.reason ?? "\(error)")"
      addUnmatched(place.path, failure)
    }
  }

  private mutating func add(_ place: TakeLocation, _ claim: TakeWalk.Claim, rivals: [TakeWalk.Claim]) {
    let candidate = claim.candidate
    companions.formUnion(candidate.companions)
    guard Self.isUsable(candidate.stem) else {
      return addUnmatched(
        place.path, TakeFailure(.badName, "the name cannot be used as a take id; expected 1 to 200 bytes without control characters"))
    }
    var take = Found(id: candidate.stem, location: place, reader: claim.reader)
    (take.companions, take.labelFiles, take.session) = (candidate.companions, claim.labelFiles, candidate.session)
    if !rivals.isEmpty {
      let names = rivals.map { type(of: $0.reader).name }.joined(separator: " and ")
      take.findings.append(
        Finding(
          .formatAmbiguous, "\(names) could also read it; \(type(of: claim.reader).name) is used; set reader: {name: …} to choose another"))
    }
    if candidate.hasGenericName {
      // Named after its content, unless an earlier run has named it.
      do {
        take.id = try registry.id(of: place) ?? name(byContent: candidate.inputs())
      } catch {
        let failure = error as? TakeFailure ?? (error as? FileError)?.failure() ?? TakeFailure(.internal, "\(error)")
        // A take that is readable again a moment later would be written under another name. A location that holds no take keeps its name
        // and fails with the reason.
        if failure.isOfMachine { return addUnmatched(place.path, failure) }
      }
    }
    found.append(take)
  }

  /// Makes one take of those that the pipeline joins.
  private mutating func group(by join: Join) {
    let groups = TakeGroups(join, found, inputs: roots, timing: timing)
    found = groups.found.filter { Self.isUsable($0.id) }
    for take in groups.found where !Self.isUsable(take.id) {
      addUnmatched(
        take.location.path,
        TakeFailure(
          .badName, "the name of the group of takes in it cannot be used as an id; expected 1 to 200 bytes without control characters"))
    }
    for index in found.indices where groups.folders.contains(found[index].location.path) {
      let folder = found[index].location.path
      let files = ((try? Directory.members(of: folder)) ?? []).filter { LabelFile.isName($0.name) }
      for file in files { ignored.remove("\(folder)/\(file.name)") }
      found[index].labelFiles = files
    }
  }

  private func name(byContent inputs: TakeInputs) throws -> String {
    _ = try inputs.stamp()
    try inputs.finishDigests(isCancelled: isCancelled)
    return String(inputs.digest.description.prefix(12))
  }

  private mutating func addUnmatched(_ input: String, _ failure: TakeFailure) {
    unmatched.append(Unmatched(id: "", path: Directory.absolute(input), failure: failure))
  }

  private mutating func findDuplicateFolders() {
    let folders = Set(found.map(\.location).filter(\.isDirectory).map(\.path))
    for index in found.indices where !found[index].location.isDirectory {
      let path = URL(fileURLWithPath: found[index].location.path).deletingPathExtension().path
      if folders.contains(path) { found[index].duplicateFolder = TakeLocation(path: path, isDirectory: true) }
    }
  }

  // MARK: Ids

  /// Assigns the ids: takes of an earlier run keep theirs; then the other takes get theirs in input order, then the unmatched inputs.
  private mutating func assignIDs() {
    var used: Set<String> = []
    let stems = Set(found.map(\.id))
    /// The take whose episode an id would name: `a` for `a.0`.
    func owner(of id: String) -> String? {
      splitsTakes ? EpisodeID(ofPart: id)?.take : nil
    }
    /// The takes whose episodes the used ids would name.
    var owners: Set<String> = []
    func use(_ id: String) {
      used.insert(id)
      if let take = owner(of: id) { owners.insert(take) }
    }
    func clashes(_ id: String) -> Bool {
      if let take = owner(of: id), stems.contains(take) || used.contains(take) { return true }
      return owners.contains(id)
    }
    /// The first number that may be free, by stem: thousands of takes may have one name.
    var firstFree: [String: Int] = [:]
    func free(_ stem: String, isTaken: (String) -> Bool) -> String {
      var id = stem
      var number = firstFree[stem] ?? 2
      while used.contains("\(stem)-\(number)") { number += 1 }
      firstFree[stem] = number
      while used.contains(id) || clashes(id) || isTaken(id) {
        id = "\(stem)-\(number)"
        number += 1
      }
      use(id)
      return id
    }
    var claimed: Set<String> = []
    let known = found.map { take -> String? in
      guard let reader = take.reader as? JoinedTake else { return registry.id(of: take.location) }
      return registry.id(of: reader.joinedGroup, in: take.location.path).flatMap { claimed.insert($0).inserted ? $0 : nil }
    }
    known.compactMap(\.self).forEach(use)
    for (index, take) in found.enumerated() {
      let stem = take.id
      found[index].id =
        known[index]
        ?? free(stem) { registry.belongsToAnother($0, than: take.location, take.reader, isCancelled: isCancelled) }
      if found[index].id != stem {
        found[index].findings.append(
          Finding(.duplicateID, "another take is also named \(stem); this one is named \(found[index].id)"))
      }
    }
    for (index, input) in unmatched.enumerated() {
      let name = URL(fileURLWithPath: input.path).lastPathComponent
      let stem = Self.isUsable(name) ? name : "unnamed"
      // A take that existed once and is unreachable now keeps its id, and the run keeps its episode.
      let known = registry.id(of: TakeLocation(path: input.path, isDirectory: true))
      unmatched[index].id = known ?? free(stem, isTaken: registry.isAssigned)
    }
  }

  private static func isUsable(_ name: String) -> Bool {
    PlainName(name, atMost: 200) != nil && !name.unicodeScalars.contains("\u{FFFD}")
  }
}

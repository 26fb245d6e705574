package import Evidence
import Foundation
package import Model
package import Steps

/// Divides the takes into training, validation and test sets. Takes of one group stay together: frames of one day in one room look alike,
/// and a model must not be validated on what it has seen.
///
///     - split: {valid: 0.1, test: 0, group: day, stratify: false, seed: 0}
///     - split: {group: day, timezone: America/Los_Angeles}
///     - split: {group: {hours-apart: 6}}
///     - split: {group: regex, pattern: "^(.+)_[0-9]+$"}
///
/// The day is that of the take's name, or else of its metadata, or else of its video. A take whose day or device is unknown, or whose id the
/// pattern does not match, is a group of its own. All episodes of one take have the take's group.
///
/// Groups are put in an order that depends only on the seed and their names. From its start, complete groups go to `valid` until it has
/// its share of the takes, then to `test`; the rest is `train`, which never ends up empty. A share above 0 gets at least one group when
/// there are enough; a group of more than twice the share only if there is no smaller one.
///
/// Takes that are in a part already, as when a dataset grows, stay there, and new takes of their groups go to them. The rest is dealt as above,
/// so that the shares come nearer with each take.
/// `stratify` does this for one kind of take after the other: a reader's format, and its variant, or a task. The kind with the fewest groups is first.
/// Groups with several kinds count for each of them, so a later kind only adds what it still lacks. Each kind keeps a group to train on.
package struct Split: SplitRule {
  package static let name = "split"
  package static let summary = "Divides takes into train, valid and test masks by complete groups"

  /// The attribute that takes of one group have in common. `regex` is the part of the id that `pattern` names.
  package enum Group: OptionValue, Equatable {
    case day, device, directory, take, regex
    /// Takes of which each was recorded within so many hours of another.
    case hoursApart(Double)

    private static let named: [(name: String, group: Group)] = [
      ("day", .day), ("device", .device), ("directory", .directory), ("take", .take), ("regex", .regex),
    ]
    private static let key = "hours-apart"

    package var json: JSONValue {
      if case .hoursApart(let hours) = self { return .object([Self.key: hours.json]) }
      return .string(words)
    }

    package init?(json: JSONValue) {
      if let found = Self.named.first(where: { JSONValue.string($0.name) == json }) {
        self = found.group
      } else if let members = json.object, members.count == 1, let hours = members[Self.key].flatMap({ Double(json: $0) }),
        hours > 0, hours <= 8784
      {
        self = .hoursApart(hours)
      } else {
        return nil
      }
    }

    /// The group's name in messages: `day`, `hours-apart 6`.
    var words: String {
      if case .hoursApart(let hours) = self { return "\(Self.key) \(hours.json.canonicalText)" }
      return Self.named.first { $0.group == self }?.name ?? ""
    }

    /// Whether takes are grouped by when they were recorded.
    var isByTime: Bool {
      switch self {
      case .day, .hoursApart: true
      default: false
      }
    }

    package static var schema: [String: JSONValue] {
      [
        "oneOf": [
          ["enum": .array(choices.map { .string($0) })],
          [
            "type": "object", "properties": [key: ["type": "number", "exclusiveMinimum": 0, "maximum": 8784]], "required": [.string(key)],
            "additionalProperties": false,
          ],
        ]
      ]
    }
    package static var words: String { "\(choices.joined(separator: ", ")), or {\(key): hours} with up to 8784 hours" }
    package static var choices: [String] { named.map(\.name) }
  }

  @StepOption("share of the takes for validation", 0...1) var valid = 0.1
  @StepOption("share of the takes for testing", 0...1) var test = 0.0
  @StepOption(
    "takes that stay together: those of one day, device, directory or match of the pattern, or recorded within so many hours of one another; take: each is drawn on its own"
  )
  var group = Group.day
  @StepOption(
    "where a day is meant, such as America/Los_Angeles, with group: day or hours-apart; by default a time's day is as it is written")
  var timezone: String? = nil
  @StepOption("a regular expression, with group: regex; its first capture group in a take's id, or else the whole match, is the group")
  var pattern: String? = nil
  /// The kind of takes within which the shares hold.
  package enum Stratum: OptionValue, Equatable {
    case none, format, task

    package var json: JSONValue { self == .task ? "task" : .bool(self == .format) }

    package init?(json: JSONValue) {
      switch json {
      case .bool(let flag): self = flag ? .format : .none
      case "task": self = .task
      default: return nil
      }
    }

    package static var schema: [String: JSONValue] { ["enum": [false, true, "task"]] }
    package static var words: String { "\(choices.joined(separator: ", "))" }
    package static var choices: [String] { ["false", "true", "task"] }
  }

  @StepOption(
    "whether the shares hold within each format and variant, so that every part has every kind of take; task: within each task, by the labels"
  )
  var stratify = Stratum.none
  @StepOption("changes which groups are drawn", -(1 << 52)...(1 << 52)) package var seed = 0

  package static var occursOnce: Bool { true }

  package init() {}

  /// Throws `OptionError` for shares that leave nothing to train on, and for a pattern or a time zone that does not suit the group.
  package func validate() throws {
    if valid + test >= 1 { throw OptionError("test", "valid and test together leave nothing to train on") }
    if let timezone {
      if !group.isByTime { throw OptionError("timezone", "only days have a time zone, this is group: \(group.words)") }
      if zone == nil { throw OptionError("timezone", "there is no time zone \(timezone); expected a name such as Europe/Berlin") }
    }
    switch (group, pattern) {
    case (.regex, nil): throw OptionError("pattern", "group: regex needs a regular expression, such as \"^[^_]+\"")
    case (.regex, let pattern?):
      do {
        _ = try Regex(pattern)
      } catch {
        throw OptionError("pattern", "not a regular expression: \(error)")
      }
    case (_, .some): throw OptionError("pattern", "only group: regex has a pattern, this is group: \(group.words)")
    case (_, nil): break
    }
  }

  package var stratifiesByTask: Bool { stratify == .task }

  private var zone: TimeZone? { timezone.flatMap { TimeZone(identifier: $0) } }

  package var grouping: (_ take: String, _ origin: TakeOrigin) -> String {
    let (zone, pattern) = (zone, pattern.flatMap { try? Regex($0) })
    return { take, origin in
      if let group = origin.group { return group }
      let name: String? =
        switch group {
        case .day: origin.dates.first?.day(in: zone)
        // A moment counts more than a day without a time.
        case .hoursApart: (origin.dates.first { $0.seconds != nil } ?? origin.dates.first)?.span(in: zone).map(Member.text(span:))
        case .device: origin.device.map { "device \($0)" }
        case .directory: origin.folder
        case .take: nil
        case .regex: pattern.flatMap { Self.part(of: take, $0) }
        }
      return stratify != .none ? Member.text(group: name ?? take, variant: origin.variant) : name ?? take
    }
  }

  /// The part of a take's id that a pattern names; `nil` where it matches nothing.
  private static func part(of take: String, _ pattern: Regex<AnyRegexOutput>) -> String? {
    guard let match = try? pattern.firstMatch(in: take) else { return nil }
    let capture = match.output.count > 1 ? match.output[1].substring : nil
    let name = capture ?? take[match.range]
    return name.isEmpty ? nil : String(name)
  }

  package var words: String {
    let by = [group.words, pattern, timezone].compactMap(\.self).joined(separator: " ")
    return "by \(by): valid \(valid), test \(test)"
      + (stratify == .none ? "" : ", within each \(stratify == .task ? "task" : "kind of take")")
  }

  // MARK: Assignment

  /// A take in a group, and its kind, which is empty unless the split is stratified.
  private struct Member {
    var group: String
    var kind = ""

    init(_ take: SplitTake, isStratified: Bool) {
      guard isStratified, let end = take.group.firstIndex(of: Self.separator) else {
        group = take.group
        return
      }
      group = String(take.group[take.group.index(after: end)...])
      kind = [take.reader, String(take.group[..<end])].filter { !$0.isEmpty }.joined(separator: " ")
    }

    private static let separator: Character = "\n"

    /// Returns a text with the time span of the take's recording, in place of a group until takes are compared.
    static func text(span: ClosedRange<Int64>) -> String { "\(spanStart)\(span.lowerBound) \(span.upperBound)" }

    var span: ClosedRange<Int64>? {
      guard group.hasPrefix(Self.spanStart) else { return nil }
      let ends = group.dropFirst(Self.spanStart.count).split(separator: " ").compactMap { Int64($0) }
      // Years that times in takes cannot have would overflow.
      guard ends.count == 2, ends[0] <= ends[1], ends.allSatisfy({ ((-1 << 40)...(1 << 40)).contains($0) }) else { return nil }
      return ends[0]...ends[1]
    }

    private static let spanStart = "recorded at "

    /// The group after the variant.
    static func text(group: String, variant: String?) -> String { "\(variant ?? "")\(separator)\(group)" }
  }

  /// The takes with their groups; those of a rule by hours become groups here, where all are known.
  private func members(_ takes: [SplitTake]) -> [Member] {
    var members = takes.map { Member($0, isStratified: stratify != .none) }
    guard case .hoursApart(let hours) = group else { return members }
    let timed = members.indices.compactMap { index in members[index].span.map { (index: index, span: $0) } }
      .sorted { ($0.span.lowerBound, $0.index) < ($1.span.lowerBound, $1.index) }
    var (name, end) = ("", Int64.min)
    for (index, span) in timed {
      if name.isEmpty || Double(span.lowerBound - end) > hours * 3600 { name = "from " + UnixTime.rfc3339(seconds: span.lowerBound) }
      end = max(end, span.upperBound)
      members[index].group = name
    }
    return members
  }

  /// The takes that nothing tells the time of.
  private func undated(_ takes: [SplitTake], _ members: [Member]) -> [String] {
    guard group.isByTime else { return [] }
    return zip(takes, members).filter { $0.id == $1.group && Day.inName($0.id) == nil }.map { $0.0.id }.sorted()
  }

  private var shares: [(part: SplitPart, share: Double)] { [(.valid, valid), (.test, test)].filter { $0.1 > 0 } }

  /// Returns the part of each take, in the order of `takes`. The same takes and seed give the same parts on any machine.
  package func assign(_ takes: [SplitTake]) -> [SplitPart] {
    let members = members(takes)
    /// Number of takes by group and kind.
    var sizes: [String: [String: Int]] = [:]
    for member in members { sizes[member.group, default: [:]][member.kind, default: 0] += 1 }
    let order = sizes.keys.map { (Digest.of("\(seed)\n\($0)").description, $0) }.sorted { $0 < $1 }.map(\.1)
    /// Number of groups to train on by kind.
    var remaining = sizes.values.reduce(into: [String: Int]()) { counts, size in for kind in size.keys { counts[kind, default: 0] += 1 } }
    var parts = keptParts(takes, members)
    for group in parts where group.value != .train { for kind in (sizes[group.key] ?? [:]).keys { remaining[kind, default: 0] -= 1 } }
    /// Whether a group is in no part yet, and is not the last one to train on of a kind.
    func isFree(_ group: String) -> Bool {
      parts[group] == nil && (sizes[group] ?? [:]).keys.allSatisfy { (remaining[$0] ?? 0) > 1 }
    }

    for kind in remaining.sorted(by: { ($0.value, $0.key) < ($1.value, $1.key) }).map(\.key) {
      let groups = order.compactMap { group in sizes[group]?[kind].map { (name: group, size: $0) } }
      let total = groups.reduce(0) { $0 + $1.size }
      for (part, share) in shares {
        let wanted = share * Double(total)
        var taken = groups.reduce(0) { $0 + (parts[$1.name] == part ? $1.size : 0) }
        var rest = groups[...]
        // A group is added when it brings the share nearer.
        func isNearer(_ size: Int) -> Bool { Double(taken) + Double(size) / 2 <= wanted }
        while true {
          // A group that is not free will not be later.
          rest = rest.drop { !isFree($0.name) }
          let free = rest.lazy.filter { isFree($0.name) }
          let next = taken > 0 ? rest.first : free.first { isNearer($0.size) } ?? free.min { $0.size < $1.size }
          guard let next, taken == 0 || isNearer(next.size) else { break }
          parts[next.name] = part
          taken += next.size
          for kind in (sizes[next.name] ?? [:]).keys { remaining[kind, default: 0] -= 1 }
        }
      }
    }
    return zip(takes, members).map { $0.part ?? parts[$1.group] ?? .train }
  }

  /// The part of each group that has takes in a part already: of several, the one of most takes, or else the first.
  private func keptParts(_ takes: [SplitTake], _ members: [Member]) -> [String: SplitPart] {
    var counts: [String: [SplitPart: Int]] = [:]
    for (take, member) in zip(takes, members) { if let part = take.part { counts[member.group, default: [:]][part, default: 0] += 1 } }
    return counts.mapValues { counts in
      let most = counts.values.max() ?? 0
      return SplitPart.allCases.first { counts[$0] == most } ?? .train
    }
  }

  /// Returns findings about takes without a known day, and about kinds that a part lacks.
  package func findings(_ takes: [SplitTake], _ parts: [SplitPart]) -> [Finding] {
    let members = members(takes)
    let undated = undated(takes, members)
    // One take alone is a trial, not a mistake.
    let unknown: [Finding] =
      undated.isEmpty || takes.count == 1 || shares.isEmpty
      ? []
      : [
        Finding(
          .dayUnknown, "takes that nothing tells the day of, each a group of its own: \(undated.abridged)", count: undated.count)
      ]
    let kinds = Dictionary(grouping: members.indices) { members[$0].kind }.sorted { $0.key < $1.key }
    if takes.count == 1 { return unknown }
    let empty: [Finding] = shares.flatMap { part, share in
      kinds.compactMap { kind, indices in
        guard !indices.contains(where: { parts[$0] == part }) else { return nil }
        let groups = Set(indices.map { members[$0].group }).count
        let reason =
          switch (indices.count, groups) {
          case (1, _): "there is only one"
          case (_, 1): "all are of one group (by \(group.words))"
          default: "they are of only \(groups) groups (by \(group.words)), and one is to train on"
          }
        let all = "\(indices.count) \(indices.count == 1 ? "take" : "takes")" + (kind.isEmpty ? "" : " of \(kind)")
        return Finding(
          .splitEmpty, "\(part.rawValue): \(share) of \(all) is empty, because \(reason)")
      }
    }
    return unknown + empty
  }
}

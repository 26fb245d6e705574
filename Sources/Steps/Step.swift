package import Evidence
import Foundation
package import Hosts
package import Model

/// A reader, transform or writer that a pipeline file can name. Its stored properties are its options, and their initial values are the
/// defaults; the property `keepLocation` is the option `keep-location`.
package protocol Step: Codable, Sendable {
  static var name: String { get }
  /// A description in one line.
  static var summary: String { get }
  init()
  /// Checks the values together. Throws `OptionError` when they contradict each other.
  func validate() throws
}

extension Step {
  /// Accepts all values: their own ranges are checked before.
  package func validate() throws {}
}

/// An option whose value is invalid.
package struct OptionError: Error, Equatable {
  package var option: String
  package var message: String
  package init(_ option: String, _ message: String) {
    self.option = option
    self.message = message
  }
}

/// A step that recognizes takes of one format and opens them.
package protocol Reader: Step {
  /// Whether takes have streams that a pipeline must align to the frames.
  static var needsAlign: Bool { get }
  /// Whether folders may come from untrusted senders. They are then converted in a process of their own, as archives and single files
  /// always are.
  static var isolatesFolders: Bool { get }
  /// Whether takes may have a video, for which FFmpeg is loaded before a process gives up its rights.
  static var needsFFmpeg: Bool { get }
  /// The take that may be at a location; `nil` when none is recognized. Reads names and first bytes, never pixels. Throws where the system
  /// cannot determine it.
  func recognize(_ place: TakePlace) throws -> Candidate?
  /// Opens a take and reads what is needed for every stream's timestamps. Throws `TakeFailure`, or `Rejection` for a take that is intact
  /// but lacks something.
  func open(_ take: Take) throws -> Episode
  /// Returns the part that a take still lacks while it is arriving, as a sentence; `nil` where it has all that it lists. Archives are
  /// complete where they can be listed, and not asked for. More files than listed are a finding of the conversion, not a reason to wait.
  ///
  /// - Parameter hasRestedLong: Whether nothing has arrived for so long that a take that lists nothing counts as complete.
  /// - Throws: The reason that the take cannot be listed at all.
  func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String?
}

extension Reader {
  package static var needsAlign: Bool { true }
  package static var isolatesFolders: Bool { true }
  package static var needsFFmpeg: Bool { true }
  /// Returns `nil`: the take counts as complete once it rests.
  package func missing(in inputs: TakeInputs, hasRestedLong: Bool) throws -> String? { nil }

  /// The files of a take that this reader recognized before. Throws `TakeFailure` if it no longer does.
  package func inputs(of location: TakeLocation) throws -> TakeInputs {
    guard let candidate = try recognize(TakePlace(location)) else {
      throw TakeFailure(.changedWhileReading, "the take recognized by \(Self.name) is no longer there")
    }
    return try candidate.inputs()
  }
}

/// A reader with an option that may name a file, which is read once, when the pipeline is loaded: what it says is then the option's value.
package protocol DescribedReader: Reader {
  /// The file, relative to the pipeline file; `nil` where none is named.
  var descriptionFile: String? { get }
  /// Throws `PipelineFileError` with path, line and column of a mistake in the file's text.
  mutating func describe(_ text: String) throws
}

/// A step that maps an episode to another one.
///
///     struct KeepFirst: Transform {
///       static let name = "keep-first"
///       static let summary = "Keeps the first frames"
///
///       @StepOption("frames to keep", 1...) var count = 100
///
///       func apply(to episode: Episode, in context: RunContext) throws -> Episode {
///         episode.keeping(Array(0..<min(count, episode.frames.count)), dropping: "later")
///       }
///     }
package protocol Transform: Step {
  /// Whether it reads images or depth maps before any is written.
  var readsSamples: Bool { get }
  /// Whether a pipeline may have it only once.
  static var occursOnce: Bool { get }
  /// Whether it changes the pixels of images.
  var changesImages: Bool { get }
  /// Whether it pairs streams with the frames.
  static var aligns: Bool { get }
  /// Whether it needs streams that are paired with the frames.
  static var needsAligned: Bool { get }
  /// Whether its rows are ticks of a grid, some of which may repeat a frame or be left out.
  static var makesGrid: Bool { get }
  /// The option that names members of takes of several phones, and their names; `nil` where none does.
  var namedMembers: (option: String, names: [String])? { get }
  /// An option that is given and that takes of several phones cannot have; `nil` where there is none.
  var optionOfOnePhone: String? { get }
  /// Whether it concerns the dataset's index alone: it is no part of a take's conversion and is never applied to one.
  static var concernsIndexOnly: Bool { get }
  /// The transformed episode. Throws `Rejection` to reject the take.
  func apply(to episode: Episode, in context: RunContext) throws -> Episode
}

extension Transform {
  package static var occursOnce: Bool { false }
  package static var aligns: Bool { false }
  package static var needsAligned: Bool { false }
  package static var makesGrid: Bool { false }
  package static var concernsIndexOnly: Bool { false }
  package var namedMembers: (option: String, names: [String])? { nil }
  package var optionOfOnePhone: String? { nil }
  package var changesImages: Bool { false }
  package var readsSamples: Bool { false }
}

/// A transform that can be limited to one member of a joined take. It changes streams and cameras, and no rows.
package protocol MemberTransform: Transform {
  /// The member; `nil` for all streams.
  var member: String? { get set }
}

extension MemberTransform {
  package var namedMembers: (option: String, names: [String])? { member.map { ("member", [$0]) } }
}

extension Episode {
  /// Whether it has streams of a member of a joined take.
  package func has(_ member: String) -> Bool { streams.values.contains { $0.spec.member == member } }

  /// Notes that a step is limited to a member which the take lacks.
  package mutating func noteLacking(_ member: String, _ step: any Step.Type) {
    findings.append(Finding(.optionUnused, "\(step.name): member names \(member), of which the take has no streams", field: member))
  }

  /// The episode in which only the streams and cameras of a member are changed; of every member for `nil`.
  package func changing(_ member: String?, by change: (Episode) throws -> Episode) rethrows -> Episode {
    guard let member else { return try change(self) }
    var own = self
    own.streams = streams.filter { $0.value.spec.member == member }
    let rasters = Set(own.streams.values.compactMap { $0.spec.raster?.camera })
    own.cameras = cameras.filter { rasters.contains($0.key) }
    var changed = try change(own)
    changed.streams.merge(streams.filter { $0.value.spec.member != member }) { own, _ in own }
    changed.cameras.merge(cameras) { own, _ in own }
    return changed
  }
}

/// A transform that makes several episodes of one take. As a step of its own it changes nothing.
package protocol EpisodeSplitter: Transform {
  /// The rows of each episode, in order and without overlap.
  func episodes(of take: Episode) throws -> [Range<Int>]
}

extension EpisodeSplitter {
  /// Returns the episode unchanged: it is cut by `episodes(of:)`.
  package func apply(to episode: Episode, in context: RunContext) throws -> Episode { episode }
}

/// A transform whose work a program of the user's does, which is loaded before any take is opened.
package protocol ProgrammedTransform: Transform {
  /// The program, and the files that it reads, relative to the pipeline file.
  var file: String { get }
  var files: [String] { get }
  /// The function in it; `nil` for the only one.
  var function: String? { get }
  /// The values that it gets.
  var options: [String: JSONValue] { get }
  /// What the program declares, with the digests of all that was loaded, once it is.
  var recorded: [String: JSONValue]? { get set }
  /// What it is called by in messages to a host.
  var key: String { get }
  /// Returns the mistake in what a program declares, as a sentence; `nil` without one.
  static func mistake(in declared: [String: JSONValue]) -> String?
}

/// Inputs of steps from outside the take.
package struct RunContext: Sendable {
  /// Public keys of devices, for checking signatures.
  package var keys: DeviceKeys?
  /// The processes that call steps in Python; `nil` where none is to be called.
  package var hosts: StepHosts?
  /// Whether only the layout of what would be written is asked for.
  package var isPlan = false
  package init(keys: DeviceKeys? = nil) { self.keys = keys }
}

/// Members of an episode's details from which its labels are made: what the take's format says, a file of labels in its archive, and its steps in
/// Python, and the nanoseconds from the take's first frame to the first row, where there are any.
package enum LabelDetails {
  package static let format = "format_labels", archive = "archive_labels", steps = "labels", firstRow = "first_row_ns"
}

extension Episode {
  /// Whether the result for the take depends on the keys of the run.
  package var dependsOnKeys: Bool {
    get { extensions[KeyDependence.self] != nil }
    set { extensions[KeyDependence.self] = newValue ? KeyDependence() : nil }
  }

  /// Details from the reader and the transforms, for the take's record.
  package var details: [String: JSONValue] {
    get { extensions[Details.self]?.members ?? [:] }
    set { extensions[Details.self] = Details(members: newValue) }
  }

  /// Adds what was found out about a member of a joined take.
  package mutating func setDetail(_ key: String, _ value: JSONValue, of member: String) {
    var members = details["members"]?.object ?? [:]
    var own = members[member]?.object ?? [:]
    own[key] = value
    members[member] = .object(own)
    details["members"] = .object(members)
  }

  /// The name of the take's reader.
  package var readerName: String {
    get { extensions[ReaderName.self]?.name ?? "none" }
    set { extensions[ReaderName.self] = ReaderName(name: newValue) }
  }

  /// The name of the directory that holds the take.
  package var folder: String? {
    get { extensions[Folder.self]?.name }
    set { extensions[Folder.self] = newValue.map { Folder(name: $0) } }
  }

  /// The device that recorded the take: its id, or else its model, which several devices have. It is in no output.
  package var device: String? {
    get { extensions[Device.self]?.name }
    set { extensions[Device.self] = newValue.flatMap { $0.allSatisfy(\.isWhitespace) ? nil : Device(name: $0) } }
  }

  private struct KeyDependence: Sendable {}
  private struct ReaderName: Sendable { var name: String }
  private struct Folder: Sendable { var name: String }
  private struct Device: Sendable { var name: String }
  private struct Details: Sendable { var members: [String: JSONValue] }
}

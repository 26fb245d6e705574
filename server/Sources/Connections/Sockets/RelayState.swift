/// The cameras and viewers that are connected to the relay, and who sees whom: the decisions of `Relay`, without sockets. Cameras and
/// viewers of a key see each other in its project only; a viewer without a key sees all.
/// Messages are sent to values of `CameraEnd` and `ViewerEnd`.
///
///     let (id, end) = state.add(at: now) { id in .init(end: makeEnd(id), project: "lab", records: false) }
///     for viewer in state.viewers(of: "lab") { viewer.send(frame) }
package struct RelayState<CameraEnd: Sendable, ViewerEnd: Sendable>: Sendable {
  /// A camera that is connected; `status` is its last one, `nil` before the first.
  package struct Camera: Sendable {
    package let end: CameraEnd
    let project: String
    /// Whether its stream is kept from the start.
    let records: Bool
    var status: String?

    package init(end: CameraEnd, project: String, records: Bool) { (self.end, self.project, self.records) = (end, project, records) }
  }

  /// A viewer that is connected.
  package struct Viewer: Sendable {
    package let end: ViewerEnd
    /// Project of its key; `nil` for one without a key, who sees all.
    let project: String?
    /// Whether it wants to have kept what it sees.
    var records: Bool

    package init(end: ViewerEnd, project: String?, records: Bool) { (self.end, self.project, self.records) = (end, project, records) }
  }

  /// Cameras by id: milliseconds since 1970 at which each connected.
  private var cameras: [Int64: Camera] = [:]
  private var viewers: [Int: Viewer] = [:]
  private var viewerCount = 0

  package init() {}

  // MARK: Who comes and goes

  /// - Parameter camera: Makes it for its id.
  package mutating func add(at time: Int64, _ camera: (Int64) -> Camera) -> (id: Int64, end: CameraEnd) {
    var id = time
    while cameras[id] != nil { id += 1 }
    let camera = camera(id)
    cameras[id] = camera
    return (id, camera.end)
  }

  /// Forgets a camera; one that is gone already changes nothing.
  package mutating func removeCamera(_ id: Int64) { cameras[id] = nil }

  /// - Returns: Its id, and the cameras that it sees with what they have said last, the one first that was there first.
  package mutating func add(_ viewer: Viewer) -> (id: Int, seen: [(camera: Int64, status: String)]) {
    viewerCount += 1
    viewers[viewerCount] = viewer
    let seen = cameras.filter { viewer.project == nil || viewer.project == $0.value.project }.sorted { $0.key < $1.key }
    return (viewerCount, seen.map { ($0.key, $0.value.status ?? "waiting") })
  }

  /// Forgets a viewer; one that is gone already changes nothing.
  package mutating func removeViewer(_ id: Int) { viewers[id] = nil }

  // MARK: Who sees whom

  /// All cameras, or those of a project.
  package func cameras(of project: String?) -> [CameraEnd] {
    cameras.values.filter { project == nil || project == $0.project }.map(\.end)
  }

  /// Returns the viewers that see a project's cameras.
  package func viewers(of project: String) -> [ViewerEnd] { seers(of: project).map(\.end) }

  /// Returns the number of viewers that see a project, or of all.
  package func viewerCount(of project: String?) -> Int { project.map { seers(of: $0).count } ?? viewers.count }

  private func seers(of project: String) -> [Viewer] { viewers.values.filter { $0.project == nil || $0.project == project } }

  // MARK: What is kept

  /// Keeps a camera's status for viewers that come later.
  package mutating func setStatus(_ status: String, of camera: Int64) { cameras[camera]?.status = status }

  /// Notes whether a viewer wants to have kept what it sees.
  package mutating func setRecords(_ isOn: Bool, of viewer: Int) { viewers[viewer]?.records = isOn }

  /// Returns the viewers that want a project's streams kept.
  package func keepers(of project: String) -> [ViewerEnd] { seers(of: project).filter(\.records).map(\.end) }

  /// Whether a camera's stream is kept.
  package func isKept(_ camera: Int64) -> Bool { cameras[camera].map(isKept) ?? false }

  private func isKept(_ camera: Camera) -> Bool { camera.records || seers(of: camera.project).contains(where: \.records) }

  /// Cameras whose stream no viewer wants to have kept.
  package var unkept: [CameraEnd] { cameras.values.filter { !isKept($0) }.map(\.end) }
}

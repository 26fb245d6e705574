import Evidence
import Model
import Steps

/// JSON files of one frame each, such as `frame_00017.json`.
struct FrameRecords {
  struct Record {
    var number: Int64
    var path: String
    /// Empty for a file that is not an object of JSON.
    var members: [String: JSONValue] = [:]
    /// The time under the key that was asked for, exact to the nanosecond.
    var time: Timestamp?

    /// Whether there is anything under a key, whatever it is.
    func has(_ key: String) -> Bool { members[key] != nil && members[key] != .null }

    /// The numbers under these keys; `nil` unless all are there.
    func numbers(_ keys: some Collection<String>) -> [Double]? {
      let numbers = keys.compactMap { members[$0]?.double }
      return numbers.count == keys.count ? numbers : nil
    }

    /// The numbers of a list, or of a list of lists; `nil` unless there are so many.
    func numbers(_ key: String, count: Int) -> [Double]? {
      guard let list = members[key]?.array else { return nil }
      let numbers = list.flatMap { $0.array ?? [$0] }.compactMap(\.double)
      return numbers.count == count ? numbers : nil
    }
  }

  private static let limit = 1 << 20

  private(set) var records: [Record] = []

  /// Reads the files in the order of their numbers. One that is no JSON costs its frame.
  ///
  /// - Parameter keys: The keys that are kept of each.
  init(_ files: [Int64: Int], in inputs: TakeInputs, keys: Set<String>, timeKey: String? = nil, notes: FindingCollector) throws {
    var damaged: [Finding] = []
    for (number, file) in files.sorted(by: { $0.key < $1.key }) {
      var record = Record(number: number, path: inputs.entries[file].path)
      do {
        record.members = try inputs.readJSON(file, limit: Self.limit) { reader in
          guard try reader.nextIsObject else { throw TakeFailure(.jsonType, "expected an object, found \(try reader.describeNext())") }
          let members = try reader.object { key in
            if key == timeKey, try reader.nextIsNumber {
              record.time = try reader.seconds()
            } else if keys.contains(key) {
              return nil
            } else {
              try reader.skip()
            }
            return .null
          }
          try reader.expectEnd()
          return members
        }
      } catch let failure as TakeFailure where [.jsonInvalid, .jsonType, .inputTooLarge, .archiveDamaged].contains(failure.code) {
        record.time = nil
        damaged.note(Finding(.poseUnusable, failure.message, severity: .warning, file: record.path, field: failure.field))
      }
      records.append(record)
    }
    notes.add(damaged)
  }
}

/// A stream that is computed row by row from other streams, such as actions. Writers and previews evaluate it on the rows that remain after
/// all steps.
package protocol Derived: Sendable {
  /// The stream's spec, of type Float32; the shape is that of one row.
  var spec: StreamSpec { get }
  /// The streams it is computed from; it is absent from takes that lack one of them.
  var inputs: [StreamName] { get }
  /// Computes the values of a row, NaN where one is missing. `rows` reads the values of this and of any other row, up to the last.
  func value(at row: Int, of rows: inout RowReader) throws -> [Float]
  /// Returns the values to store in a row that has none, in place of zeros; the row stays masked.
  func placeholder(at row: Int, of rows: inout RowReader) throws -> [Float]?
}

extension Derived {
  /// Returns `nil`: the row is stored as zeros.
  package func placeholder(at row: Int, of rows: inout RowReader) throws -> [Float]? { nil }
}

/// A stream that is computed row by row from others, such as actions. It is evaluated on the rows that are left after all steps, by whoever
/// writes or shows them.
package protocol Derived: Sendable {
  /// Type Float32; the shape is that of one row.
  var spec: StreamSpec { get }
  /// The streams it is computed from; a take that lacks one does not have it.
  var inputs: [StreamName] { get }
  /// The numbers of a row, NaN where one is missing. `rows` gives the values of this and of any other row, up to the last.
  func value(at row: Int, of rows: inout RowReader) throws -> [Float]
}

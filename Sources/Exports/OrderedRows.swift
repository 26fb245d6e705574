import Steps

extension ExportDirectory {
  /// Makes a product of each index on the threads of the export, as the function of the same name does.
  func inOrder<Worker, Product: Sendable>(
    _ count: Int, start: @escaping @Sendable () throws -> Worker,
    make: @escaping @Sendable (_ worker: inout Worker, _ index: Int) throws -> Product,
    store: (_ index: Int, _ product: Product) throws -> Void
  ) throws {
    try Steps.inOrder(
      count, threads: threads, start: start,
      make: { [self] worker, index in
        try checkCancellation()
        return try make(&worker, index)
      }, store: store)
  }

  /// Calls `body` for each index on the threads of the export, each with a worker of its own that `start` makes. Throws the error of the
  /// first index that has one.
  func inParallel<Worker>(
    _ count: Int, start: @escaping @Sendable () throws -> Worker,
    _ body: @escaping @Sendable (_ worker: inout Worker, _ index: Int) throws -> Void
  ) throws {
    try Steps.inOrder(
      count, threads: threads, waiting: count, start: start,
      make: { [self] worker, index in
        try checkCancellation()
        try body(&worker, index)
      }, store: { _, _ in })
  }
}

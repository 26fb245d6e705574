import Foundation

/// Makes a product of each index on several threads, each with a worker of its own that `start` makes, and passes the products to `store`
/// on the calling thread, in order.
///
/// At most `waiting` products wait, by default a few per thread, so memory does not grow with their number, and the order of what is
/// stored does not depend on the threads. Throws the error of the first index that has one.
///
///     try inOrder(images.count, threads: 4, start: { try JPEGEncoder() }) { encoder, index in
///       try encoder.encode(images[index], size: size, quality: 90)
///     } store: { _, file in
///       try append(file)
///     }
package func inOrder<Worker, Product: Sendable>(
  _ count: Int, threads: Int, waiting: Int? = nil, start: @escaping @Sendable () throws -> Worker,
  make: @escaping @Sendable (_ worker: inout Worker, _ index: Int) throws -> Product,
  store: (_ index: Int, _ product: Product) throws -> Void
) throws {
  guard count > 1, threads > 1 else {
    guard count > 0 else { return }
    var worker = try start()
    for index in 0..<count { try store(index, make(&worker, index)) }
    return
  }
  let products = OrderedProducts<Product>(count: count, waiting: waiting ?? 4 * threads)
  let group = DispatchGroup()
  for _ in 0..<min(threads, count) {
    DispatchQueue.global().async(group: group) {
      do {
        var worker = try start()
        while let index = products.next() { products.put(index, Result { try make(&worker, index) }) }
      } catch {
        products.fail(error)
      }
    }
  }
  // Nothing of the workers may outlive the call: their files are removed after an error.
  defer {
    products.stop()
    group.wait()
  }
  for index in 0..<count { try store(index, products.take(index)) }
}

/// Calls `body` for each index on several threads, and returns the results in order.
package func inParallel<Result: Sendable>(_ count: Int, threads: Int, _ body: @escaping @Sendable (Int) -> Result) -> [Result] {
  var results: [Result] = []
  results.reserveCapacity(count)
  do {
    try inOrder(count, threads: threads, waiting: count) {
    } make: { (_: inout Void, index) in
      body(index)
    } store: { _, result in
      results.append(result)
    }
  } catch {
    preconditionFailure("nothing throws")
  }
  return results
}

/// Products that several threads make and one takes in order.
private final class OrderedProducts<Product: Sendable>: @unchecked Sendable {
  // Everything below is used with the lock only.
  private let condition = NSCondition()
  private let count: Int
  private let waiting: Int
  private var started = 0
  private var taken = 0
  private var finished: [Int: Result<Product, any Error>] = [:]
  private var failure: (any Error)?
  private var isStopped = false

  /// - Parameter waiting: The number of products that may be made ahead of the one that is taken.
  init(count: Int, waiting: Int) { (self.count, self.waiting) = (count, waiting) }

  /// The next index to make a product of; `nil` when there is none left. Waits while too many wait to be taken.
  func next() -> Int? {
    condition.withLock {
      while !isStopped, started < count, started >= taken + waiting { condition.wait() }
      guard !isStopped, started < count else { return nil }
      started += 1
      return started - 1
    }
  }

  func put(_ index: Int, _ product: Result<Product, any Error>) {
    condition.withLock {
      finished[index] = product
      condition.broadcast()
    }
  }

  /// Reports a worker that could not start.
  func fail(_ error: any Error) {
    condition.withLock {
      failure = failure ?? error
      condition.broadcast()
    }
  }

  /// Waits for the product of an index.
  func take(_ index: Int) throws -> Product {
    let product = try condition.withLock {
      while finished[index] == nil {
        if let failure { throw failure }
        condition.wait()
      }
      taken = index + 1
      condition.broadcast()
      return finished.removeValue(forKey: index)
    }
    guard let product else { preconditionFailure("the product was there") }
    return try product.get()
  }

  func stop() {
    condition.withLock {
      isStopped = true
      condition.broadcast()
    }
  }
}

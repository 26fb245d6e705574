import Foundation
import Metrics
import NIOConcurrencyHelpers

/// Metrics of this process in Prometheus' text format (version 0.0.4): counters, gauges, and histograms of seconds.
final class PrometheusMetrics: MetricsFactory {
  /// Upper bounds of the buckets of durations, in seconds.
  private static let bounds: [Double] = [0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120]

  private struct Key: Hashable {
    var name: String
    /// The labels in Prometheus's form, without braces.
    var labels: String
  }

  private enum Value {
    case counter(Double)
    case gauge(Double)
    case histogram(counts: [Int], sum: Double)
  }

  /// A figure that is measured when the page is asked for.
  struct Gauge: Sendable {
    var name: String
    var labels: [(String, String)] = []
    var value: Double
  }

  private let values = NIOLockedValueBox<[Key: Value]>([:])

  private let help: [String: String]

  /// - Parameter help: The meaning of metrics, by name.
  init(help: [String: String]) { self.help = help }

  /// Gauges and, with `hasRequests`, what was counted of requests, sorted.
  func text(_ gauges: [Gauge], hasRequests: Bool) -> String {
    var found = hasRequests ? values.withLockedValue { $0 } : [:]
    for gauge in gauges { found[Self.key(gauge.name, gauge.labels)] = .gauge(gauge.value) }
    var lines: [String] = []
    for (name, group) in Dictionary(grouping: found, by: \.key.name).sorted(by: { $0.key < $1.key }) {
      if let meaning = help[name] { lines.append("# HELP \(name) \(meaning)") }
      switch group[0].value {
      case .counter: lines.append("# TYPE \(name) counter")
      case .gauge: lines.append("# TYPE \(name) gauge")
      case .histogram: lines.append("# TYPE \(name) histogram")
      }
      for (key, value) in group.sorted(by: { $0.key.labels < $1.key.labels }) {
        let braces = key.labels.isEmpty ? "" : "{\(key.labels)}"
        switch value {
        case .counter(let number), .gauge(let number): lines.append("\(name)\(braces) \(Self.text(number))")
        case .histogram(let counts, let sum):
          var total = 0
          for (bound, count) in zip(Self.bounds.map { Self.text($0) } + ["+Inf"], counts) {
            total += count
            lines.append("\(name)_bucket{\(key.labels)\(key.labels.isEmpty ? "" : ",")le=\"\(bound)\"} \(total)")
          }
          lines.append("\(name)_sum\(braces) \(Self.text(sum))")
          lines.append("\(name)_count\(braces) \(total)")
        }
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func text(_ number: Double) -> String {
    number == number.rounded() && abs(number) < 1e15 ? "\(Int64(number))" : "\(number)"
  }

  private static func key(_ label: String, _ dimensions: [(String, String)]) -> Key {
    func name(_ text: String) -> String { String(text.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" }) }
    let labels = dimensions.sorted { $0.0 < $1.0 }.map { label, value in
      let escaped = value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
      return "\(name(label))=\"\(escaped)\""
    }
    return Key(name: name(label), labels: labels.joined(separator: ","))
  }

  private func add(_ key: Key, _ number: Double) {
    values.withLockedValue { values in
      if case .counter(let sum) = values[key] { values[key] = .counter(sum + number) } else { values[key] = .counter(number) }
    }
  }

  private func record(_ key: Key, _ value: Double) {
    values.withLockedValue { values in
      var counts = [Int](repeating: 0, count: Self.bounds.count + 1)
      var sum = 0.0
      if case .histogram(let earlier, let total) = values[key] { (counts, sum) = (earlier, total) }
      counts[Self.bounds.firstIndex { value <= $0 } ?? Self.bounds.count] += 1
      values[key] = .histogram(counts: counts, sum: sum + value)
    }
  }

  // MARK: Handlers

  /// One metric; it has no state of its own.
  private final class Handler: CounterHandler, FloatingPointCounterHandler, RecorderHandler, TimerHandler {
    private let metrics: PrometheusMetrics
    private let key: Key

    init(_ metrics: PrometheusMetrics, _ key: Key) { (self.metrics, self.key) = (metrics, key) }

    func increment(by number: Int64) { metrics.add(key, Double(number)) }
    func increment(by number: Double) { metrics.add(key, number) }
    func reset() {}
    func record(_ value: Int64) { metrics.record(key, Double(value)) }
    func record(_ value: Double) { metrics.record(key, value) }
    func recordNanoseconds(_ duration: Int64) { metrics.record(key, Double(duration) / 1e9) }
  }

  func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    Handler(self, Self.key(label + "_total", dimensions))
  }
  func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
    Handler(self, Self.key(label + "_total", dimensions))
  }
  /// Requests under way would be counted down only with an answer that somebody reads, so they are not counted.
  func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { NOOPMetricsHandler.instance }
  func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
    Handler(self, Self.key(label, dimensions))
  }
  func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    Handler(self, Self.key(label + "_seconds", dimensions))
  }
  func destroyCounter(_ handler: any CounterHandler) {}
  func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
  func destroyMeter(_ handler: any MeterHandler) {}
  func destroyRecorder(_ handler: any RecorderHandler) {}
  func destroyTimer(_ handler: any TimerHandler) {}
}

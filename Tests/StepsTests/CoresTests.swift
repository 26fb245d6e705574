import Model
import Testing

@testable import Steps

@Suite struct CoresTests {
  private func quota(_ groups: String, _ files: [String: String]) -> Double? { Cores.quota(groups: groups) { files[$0] } }

  @Test func takesTheLeastOfAGroupAndThoseAboveIt() {
    let files = ["/a/b/cpu.max": "max 100000\n", "/a/cpu.max": "150000 100000\n", "/cpu.max": "400000 100000\n"]
    #expect(quota("0::/a/b\n", files) == 1.5)
    #expect(quota("0::/\n", files) == 4)
  }

  @Test func findsTheGroupOfAContainerAtTheTop() {
    #expect(quota("0::/../../host/path\n", ["/cpu.max": "50000 100000"]) == 0.5)
  }

  @Test func readsTheOlderHierarchyToo() {
    let groups = "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n"
    #expect(quota(groups, ["/cpu/docker/1/cpu.cfs_quota_us": "200000\n", "/cpu/docker/1/cpu.cfs_period_us": "100000\n"]) == 2)
    #expect(quota(groups, ["/cpu/docker/1/cpu.cfs_quota_us": "-1\n", "/cpu/docker/1/cpu.cfs_period_us": "100000\n"]) == nil)
  }

  @Test func nothingLimitsWhereNothingIsSaid() {
    #expect(quota("", [:]) == nil && quota("0::/\n", ["/cpu.max": "max 100000"]) == nil && quota("garbage", [:]) == nil)
    #expect(quota("0::/\n", ["/cpu.max": "nonsense"]) == nil)
    #expect(Cores.available >= 1)
  }
}

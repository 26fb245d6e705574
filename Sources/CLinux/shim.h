#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>

// Swift's Glibc does not have it: has the kernel begin to write what it holds of a stretch of a file, and does not wait.
static inline void clinux_start_writing(int descriptor, int64_t offset, int64_t count) {
  sync_file_range(descriptor, offset, count, SYNC_FILE_RANGE_WRITE);
}

// Has malloc map allocations of at least so many bytes by themselves, and keep to that. Does nothing where malloc cannot.
static inline void clinux_map_large_buffers(int bytes) {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, bytes);
#endif
}

// Has the kernel end this process when the one that started it ends, or when it has used so many seconds of CPU time.
static inline void clinux_end_with_parent(uint64_t cpu_seconds) {
  struct rlimit limit = {cpu_seconds, cpu_seconds + 1};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, 0);
  signal(SIGXCPU, SIG_DFL);
  setrlimit(RLIMIT_CPU, &limit);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

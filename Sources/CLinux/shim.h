#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

// Starts writing a byte range of a file from the page cache to disk, without waiting. Swift's Glibc does not have the call.
static inline void clinux_start_writing(int descriptor, int64_t offset, int64_t count) {
  sync_file_range(descriptor, offset, count, SYNC_FILE_RANGE_WRITE);
}

// Reserves space behind a file's bytes without making it longer. Returns 0, or -1 where there is none or the file system cannot.
static inline int clinux_reserve(int descriptor, int64_t offset, int64_t count) {
  return fallocate(descriptor, FALLOC_FL_KEEP_SIZE, offset, count);
}

// Exchanges two names at one moment. Returns 0, or -1 where the file system cannot.
static inline int clinux_exchange(const char *one, const char *other) {
#ifdef RENAME_EXCHANGE
  return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
#else
  errno = ENOSYS;
  return -1;
#endif
}

// Makes malloc keep allocations of fewer than `allocation` bytes in its heap, and up to `free_bytes` free bytes at the heap's end.
static inline void clinux_keep_buffers(int allocation, int free_bytes) {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, allocation);
  mallopt(M_TRIM_THRESHOLD, free_bytes);
#endif
}

// Names the calling thread, for those who look at a process.
static inline void clinux_name_thread(const char *name) { prctl(PR_SET_NAME, name); }

// Makes the kernel kill this process when its parent ends.
static inline void clinux_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, 9); }

// Copies the first `count` bytes of a file into another one: within the kernel, where file systems can share blocks, or through a buffer
// where the kernel cannot. Returns the number of bytes copied; where it is smaller, errno says why.
static inline int64_t clinux_copy(int source, int target, int64_t count) {
  int64_t done = 0;
  while (done < count) {
    ssize_t part = copy_file_range(source, 0, target, 0, (size_t)(count - done), 0);
    if (part < 0 && done == 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) break;
    if (part <= 0) return done;
    done += part;
  }
  char buffer[1 << 16];
  while (done < count) {
    ssize_t part = pread(source, buffer, sizeof buffer, done);
    if (part <= 0) return done;
    for (ssize_t sent = 0; sent < part;) {
      ssize_t more = pwrite(target, buffer + sent, (size_t)(part - sent), done + sent);
      if (more < 0) return done;
      sent += more;
    }
    done += part;
  }
  return done;
}

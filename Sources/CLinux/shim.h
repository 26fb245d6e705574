#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>

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

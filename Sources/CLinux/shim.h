#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/prctl.h>

// Starts writing a byte range of a file from the page cache to disk, without waiting. Swift's Glibc does not have the call.
static inline void clinux_start_writing(int descriptor, int64_t offset, int64_t count) {
  sync_file_range(descriptor, offset, count, SYNC_FILE_RANGE_WRITE);
}

// Makes malloc keep allocations of fewer than `allocation` bytes in its heap, and up to `free_bytes` free bytes at the heap's end.
static inline void clinux_keep_buffers(int allocation, int free_bytes) {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, allocation);
  mallopt(M_TRIM_THRESHOLD, free_bytes);
#endif
}

// Makes the kernel kill this process when its parent ends.
static inline void clinux_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, 9); }

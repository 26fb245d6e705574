#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/prctl.h>

// Swift's Glibc does not have it: has the kernel begin to write what it holds of a stretch of a file, and does not wait.
static inline void clinux_start_writing(int descriptor, int64_t offset, int64_t count) {
  sync_file_range(descriptor, offset, count, SYNC_FILE_RANGE_WRITE);
}

// Has malloc keep allocations of less than so many bytes in its heap, and so many free bytes at the heap's end.
static inline void clinux_keep_buffers(int allocation, int free_bytes) {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, allocation);
  mallopt(M_TRIM_THRESHOLD, free_bytes);
#endif
}

// Has the kernel kill this process when the one that started it ends.
static inline void clinux_end_with_parent(void) { prctl(PR_SET_PDEATHSIG, 9); }

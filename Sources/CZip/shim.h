#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/mman.h>
#include <zip.h>

// Swift's Glibc does not have it: a file that lives in memory alone.
static inline int czip_memory_file(void) { return memfd_create("member", MFD_CLOEXEC); }

/* Preloaded into the command: the FAIL_AT-th write to an unfinished file, or to one whose path contains FAIL_IN, finds the disk full, that one only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_int writes;

static int fails(int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  const char *part = getenv("FAIL_IN");
  if (!strstr(path, part ? part : ".partial")) return 0;
  const char *chosen = getenv("FAIL_AT");
  return chosen && atomic_fetch_add(&writes, 1) + 1 == atoi(chosen);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  if (fails(descriptor)) return errno = ENOSPC, -1;
  return ((ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
  if (fails(descriptor)) return errno = ENOSPC, -1;
  return ((ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off_t offset) {
  if (fails(descriptor)) return errno = ENOSPC, -1;
  return ((ssize_t(*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64"))(descriptor, bytes, count, offset);
}

ssize_t pwritev(int descriptor, const struct iovec *pieces, int count, off_t offset) {
  if (fails(descriptor)) return errno = ENOSPC, -1;
  return ((ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "pwritev"))(descriptor, pieces, count, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *pieces, int count, off_t offset) {
  if (fails(descriptor)) return errno = ENOSPC, -1;
  return ((ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "pwritev64"))(descriptor, pieces, count, offset);
}

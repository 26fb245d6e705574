#include "cgather.h"

#include <errno.h>
#include <hdf5.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif

enum { most_pieces = 256 };

// A chunk that waits.
struct piece {
  haddr_t address;
  const void *bytes;
  size_t count;
};

static __thread struct {
  bool is_open;
  const void *expected;
  size_t expected_count;
  // The file of what waits.
  H5FD_t *file;
  struct piece pieces[most_pieces];
  int count;
} gather;

// HDF5's own driver.
static H5FD_class_t standard;

void cgather_begin(void) {
  gather.is_open = true;
  gather.expected = NULL;
  gather.count = 0;
}

void cgather_expect(const void *bytes, size_t count) {
  gather.expected = gather.is_open ? bytes : NULL;
  gather.expected_count = count;
}

static int by_address(const void *a, const void *b) {
  haddr_t one = ((const struct piece *)a)->address, other = ((const struct piece *)b)->address;
  return one < other ? -1 : one > other;
}

// Writes the pieces, which have no gaps. Returns 0 or an errno.
static int write_run(int descriptor, const struct piece *pieces, int count) {
  struct iovec vectors[most_pieces], *next = vectors;
  haddr_t at = pieces->address;
  for (int i = 0; i < count; i++) vectors[i] = (struct iovec){(void *)pieces[i].bytes, pieces[i].count};
  while (count > 0) {
    ssize_t written = pwritev(descriptor, next, count, (off_t)at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    at += (haddr_t)written;
    for (; count > 0 && (size_t)written >= next->iov_len; next++, count--) written -= (ssize_t)next->iov_len;
    if (written == 0) continue;
    next->iov_base = (char *)next->iov_base + written;
    next->iov_len -= (size_t)written;
  }
  return 0;
}

static int flush(void) {
  struct piece *pieces = gather.pieces;
  int count = gather.count, error = 0;
  void *handle;
  gather.count = 0;
  if (count == 0) return 0;
  if (standard.get_handle(gather.file, H5P_DEFAULT, &handle) < 0) return EBADF;
  // HDF5 puts small chunks together, before or behind the large ones.
  qsort(pieces, (size_t)count, sizeof *pieces, by_address);
  for (int first = 0, next = 1; next <= count && error == 0; next++) {
    if (next < count && pieces[next].address == pieces[next - 1].address + pieces[next - 1].count) continue;
    error = write_run(*(int *)handle, pieces + first, next - first);
    first = next;
  }
  return error;
}

int cgather_end(void) {
  gather.is_open = false;
  gather.expected = NULL;
  return flush();
}

// Writes what waits, and tells HDF5 of an error as its own driver does.
static herr_t flush_within(void) {
  int error = flush();
  if (error == 0) return 0;
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_WRITEERROR, "file write failed, errno = %d", error);
  return -1;
}

static bool overlaps(const H5FD_t *file, haddr_t address, size_t count) {
  for (int i = 0; i < gather.count && gather.file == file; i++) {
    const struct piece *piece = gather.pieces + i;
    if (address < piece->address + piece->count && piece->address < address + count) return true;
  }
  return false;
}

static herr_t write_bytes(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t count, const void *bytes) {
  if (gather.expected && bytes == gather.expected && count == gather.expected_count) {
    gather.expected = NULL;
    bool fits = gather.count < most_pieces && (gather.count == 0 || gather.file == file);
    if ((!fits || overlaps(file, address, count)) && flush_within() < 0) return -1;
    gather.file = file;
    gather.pieces[gather.count++] = (struct piece){address, bytes, count};
    return 0;
  }
  if (overlaps(file, address, count) && flush_within() < 0) return -1;
  return standard.write(file, type, transfer, address, count, bytes);
}

static herr_t read_bytes(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t count, void *bytes) {
  if (overlaps(file, address, count) && flush_within() < 0) return -1;
  return standard.read(file, type, transfer, address, count, bytes);
}

int64_t cgather_driver(void) {
  static int64_t driver = -1;
  if (driver >= 0) return driver;
  // A driver is known by the files that it opens. The copy shares all but two functions, also what the driver keeps of a file.
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5FD_t *file = H5Pset_fapl_sec2(access) < 0 ? NULL : H5FDopen("/dev/null", H5F_ACC_RDONLY, access, 1);
  if (file) {
    standard = *file->cls;
    H5FD_class_t gathering = standard;
    gathering.name = "takeset";
    gathering.terminate = NULL;
    gathering.write = write_bytes;
    gathering.read = read_bytes;
    driver = H5FDregister(&gathering);
    H5FDclose(file);
  }
  H5Pclose(access);
  return driver >= 0 ? driver : H5FD_SEC2;
}

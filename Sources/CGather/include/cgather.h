#ifndef CGATHER_H
#define CGATHER_H

#include <stddef.h>
#include <stdint.h>

// Chunks that HDF5 was told to write and that are written together: a block of rows reaches the kernel in one call of some MiB, not in one
// for each chunk.

// The identifier for `H5Pset_driver` of a file driver like HDF5's own, but for chunks that wait.
int64_t cgather_driver(void);

// From here to `cgather_end`, on this thread, chunks wait.
void cgather_begin(void);

// What HDF5 writes next of exactly these bytes is such a chunk. They must stay where they are until `cgather_end`.
void cgather_expect(const void *bytes, size_t count);

// Writes what waits. Returns 0, or the errno of the system call that failed.
int cgather_end(void);

#endif

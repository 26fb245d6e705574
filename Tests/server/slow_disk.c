// Preloaded, it makes every call that changes a file slow, as a tired disk does. Sockets and pipes stay as they are.
// While the file of DISK_GATE exists, nothing becomes durable; NAME.waiting then has a byte for each call that waits.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_file(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

static void wait_for(int descriptor, int milliseconds) {
  if (is_file(descriptor)) usleep(milliseconds * 1000);
}

#define ORIGINAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *bytes, size_t count) {
  wait_for(descriptor, 5);
  return ORIGINAL(write)(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
  wait_for(descriptor, 5);
  return ORIGINAL(pwrite)(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
  wait_for(descriptor, 5);
  return ORIGINAL(pwrite64)(descriptor, bytes, count, offset);
}

static void pass_gate(void) {
  const char *gate = getenv("DISK_GATE");
  if (!gate || access(gate, F_OK) != 0) return;
  char name[4096];
  snprintf(name, sizeof name, "%s.waiting", gate);
  int file = open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file >= 0) {
    ORIGINAL(write)(file, "x", 1);
    close(file);
  }
  while (access(gate, F_OK) == 0) usleep(5000);
}

int fsync(int descriptor) {
  wait_for(descriptor, 100);
  pass_gate();
  return ORIGINAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
  wait_for(descriptor, 100);
  pass_gate();
  return ORIGINAL(fdatasync)(descriptor);
}

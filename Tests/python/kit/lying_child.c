/* Preloaded into the command: a child process that was taken over just before it answers, if the answer is about the take LD_LIAR.

   LD_LIE: what it answers instead, or "old>new", a change of its answer wherever there is the old text. LD_LIE_SHARD: unlink, shorten, link or garble, what it does to its shard.
   LD_LIE_LENGTH: it first writes up to so many MiB to its answer and to its words, and ends with the number of them that it could write. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char shard[PATH_MAX];
static int is_child;

__attribute__((constructor)) static void look(void) {
  char words[4096] = "";
  FILE *file = fopen("/proc/self/cmdline", "r");
  size_t length = file ? fread(words, 1, sizeof words, file) : 0;
  if (file) fclose(file);
  is_child = memmem(words, length, "convert-take", 12) != NULL;
}

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  if (!real) real = (typeof(real))dlsym(RTLD_NEXT, "rename");
  snprintf(shard, sizeof shard, "%s", to);
  return real(from, to);
}

static ssize_t (*real_write)(int, const void *, size_t);

/* The length of the shard and the file's first bytes stay; what they lead to does not. */
static void garble(void) {
  char bytes[512];
  memset(bytes, 0x5A, sizeof bytes);
  FILE *file = fopen(shard, "r+b");
  if (!file) abort();
  fseek(file, 40, SEEK_SET);
  fwrite(bytes, 1, sizeof bytes, file);
  fclose(file);
}

static int fill(int descriptor, int most) {
  static char piece[1 << 20];
  int count = 0;
  memset(piece, ' ', sizeof piece);
  while (count < most && real_write(descriptor, piece, sizeof piece) == sizeof piece) count++;
  return count;
}

ssize_t write(int descriptor, const void *data, size_t size) {
  if (!real_write) real_write = (typeof(real_write))dlsym(RTLD_NEXT, "write");
  const char *liar = getenv("LD_LIAR"), *lie = getenv("LD_LIE"), *act = getenv("LD_LIE_SHARD"), *length = getenv("LD_LIE_LENGTH");
  if (!is_child || descriptor != 4 || !liar || !memmem(data, size, liar, strlen(liar))) return real_write(descriptor, data, size);
  if (length) {
    int count = fill(4, atoi(length)) + fill(2, atoi(length));
    lseek(2, 0, SEEK_SET);
    char words[64];
    real_write(2, words, (size_t)snprintf(words, sizeof words, "%d MiB", count));
    _exit(70);
  }
  if (act && shard[0]) {
    if (!strcmp(act, "shorten")) truncate(shard, 100);
    else if (!strcmp(act, "garble")) garble();
    else unlink(shard);
    if (!strcmp(act, "link")) symlink("/etc/hostname", shard);
  }
  const char *sign = lie ? strchr(lie, '>') : NULL;
  if (!lie) return real_write(descriptor, data, size);
  if (!sign) return real_write(descriptor, lie, strlen(lie)), (ssize_t)size;
  const char *rest = data, *end = rest + size;
  for (const char *found; (found = memmem(rest, (size_t)(end - rest), lie, (size_t)(sign - lie))); rest = found + (sign - lie)) {
    real_write(descriptor, rest, (size_t)(found - rest));
    real_write(descriptor, sign + 1, strlen(sign + 1));
  }
  if (rest == data) abort();
  real_write(descriptor, rest, (size_t)(end - rest));
  return (ssize_t)size;
}

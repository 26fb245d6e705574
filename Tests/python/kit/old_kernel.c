/* Preloaded into the command: the first system call of Landlock (LANDLOCK_ERROR) or that of seccomp (SECCOMP_ERROR) fails with this errno, as
   on an older kernel (ENOSYS) or in an older container (EPERM). */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void deny(unsigned call, const char *error) {
  if (!error) return;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)atoi(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}

__attribute__((constructor)) static void age(void) {
  deny(444, getenv("LANDLOCK_ERROR")); /* landlock_create_ruleset, the same everywhere */
  deny(SYS_seccomp, getenv("SECCOMP_ERROR"));
}

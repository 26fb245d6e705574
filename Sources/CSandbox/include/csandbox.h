#pragma once
#include <stdint.h>
#include <sys/types.h>

// Confinement of a process that decodes files from strangers, by Landlock (https://docs.kernel.org/userspace-api/landlock.html), seccomp and
// resource limits. Everything is inherited by what the process starts, and nothing can be taken back.

// Limits memory (bytes of address space), processor time (seconds) and core files (none), never beyond the limits there are. Returns 0, or an
// errno.
int csandbox_limit(int64_t memory, int64_t seconds);

// Forbids new sockets, other programs and processes, a hold on other processes, memory that the limit does not count, and changes of owners,
// permissions and times. Returns 0; ENOSYS where the kernel or a container has no filters; or another errno.
int csandbox_deny_system_calls(void);

// Whether there are filters of system calls.
int csandbox_has_filters(void);

// Gives up root's rights, except that to files of other users. Returns 0, or an errno.
int csandbox_drop_capabilities(void);

// Allows only these files and directories to be opened: `readable` for reading, `writable` also for writing below. Paths that do not exist
// or cannot be opened are skipped. Returns 0; ENOSYS where the kernel has no Landlock; or another errno.
int csandbox_allow_files(const char *const *readable, int readable_count, const char *const *writable, int writable_count);

// Whether the kernel has Landlock.
int csandbox_has_landlock(void);

// A file of a size in bytes that never changes, which exists in memory only and is closed by exec; a negative number and errno on failure.
int csandbox_memory_file(int64_t size);

// Where a fork server has its connection.
#define CSANDBOX_CONNECTION 3

// Starts a program as a fork server: the leader of a process group, with default signals and no open files but a connection. Returns 0, its
// process id and the other end of the connection, or an errno.
int csandbox_start_server(const char *program, char *const *arguments, char *const *environment, pid_t *process, int *connection);

// Asks a fork server for a child of this process: a copy of the server, as the leader of a process group, with descriptors 0 to 4 and no
// others: null, null, `errors`, `request`, `result`. Returns 0, or EPIPE if the server has ended.
int csandbox_ask(int connection, int errors, int request, int result);

// Waits up to `milliseconds` for the answer. Returns 0 and the child's process id, which is the server's where a system cannot make a child
// of another process: then the server has become the child, and serves no more. Or ETIMEDOUT; EPIPE if the server has ended, and then no
// child runs on; or another errno.
int csandbox_answer(int connection, int milliseconds, pid_t *process);

// Takes the question back, as `csandbox_answer` if it has been answered already. After an error no child runs on.
int csandbox_last_answer(int connection, pid_t *process);

// In a fork server: waits until it is asked for a child, and returns the descriptor of its request. Ends with the process that asks.
int csandbox_next_request(void);

// In a fork server: makes the child. Returns 1 in it, and 0 in the server, which must have one thread. Libraries may know the child's first
// thread by the server's thread id, so that thread must wait for no lock of others once there are any, nor they for its.
int csandbox_become_child(void);

// Waits up to `milliseconds` for a process to end. Returns 1, its wait status and the most memory it had (bytes) once it has ended, 0 before,
// or a negative errno.
int csandbox_wait(pid_t process, int milliseconds, int *status, int64_t *peak);

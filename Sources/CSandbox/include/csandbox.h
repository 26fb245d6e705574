#pragma once
#include <stdint.h>
#include <sys/types.h>

// Confinement of a process that decodes files from strangers, by Landlock (https://docs.kernel.org/userspace-api/landlock.html), seccomp and
// resource limits. Everything is inherited by what the process starts, and nothing can be taken back.

// Limits memory (bytes of address space), processor time (seconds) and core files (none), never beyond the limits there are. Returns 0, or an
// errno.
int csandbox_limit(int64_t memory, int64_t seconds);

// Forbids new sockets, other processes and, unless `programs`, another program in place of this one, a hold on other processes, memory that the
// limit does not count, and changes of owners, permissions and times. Returns 0; ENOSYS where the kernel or a container has no filters; or
// another errno.
int csandbox_deny_system_calls(int programs);

// Whether there are filters of system calls.
int csandbox_has_filters(void);

// Gives up root's rights, except that to files of other users. Returns 0, or an errno.
int csandbox_drop_capabilities(void);

// Allows only these files and directories to be opened: `readable` for reading, `writable` also for writing below. Paths that do not exist
// or cannot be opened are skipped. With `programs`, what is readable may be executed too. Returns 0; ENOSYS where the kernel has no Landlock; or
// another errno.
int csandbox_allow_files(
    const char *const *readable, int readable_count, const char *const *writable, int writable_count, int programs);

// Whether the kernel has Landlock.
int csandbox_has_landlock(void);

// A file of a size in bytes that never changes, which exists in memory only and is closed by exec; a negative number and errno on failure.
int csandbox_memory_file(int64_t size);

// Gives the memory of such a file back; it is then all zeros.
void csandbox_clear_memory_file(int descriptor, int64_t size);

// Where a fork server has its connection.
#define CSANDBOX_CONNECTION 3

// Starts a program as a fork server: the leader of a process group, with default signals and no open files but a connection. Returns 0, its
// process id and the other end of the connection, or an errno.
int csandbox_start_server(const char *program, char *const *arguments, char *const *environment, pid_t *process, int *connection);

#define CSANDBOX_MOST_DESCRIPTORS 5

// Asks a fork server for a child of this process: a copy of the server, as the leader of a process group, which has null as descriptors 0 and 1,
// then these, and no others. The first is for errors, the second is the request; there are at most CSANDBOX_MOST_DESCRIPTORS. Returns 0, or EPIPE
// if the server has ended.
int csandbox_ask(int connection, const int *descriptors, int count);

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

// Starts a program as the leader of a process group that can read and execute only `readable`, writes no file, has at most `memory` bytes of
// address space and ends with the thread that started it. It has null as descriptors 0 to 2, one end of a connection as 3, `memory_file` as 4 and
// no others that it does not open. Returns 0, its process id and the other end, or an errno.
int csandbox_start_program(
    const char *program, char *const *arguments, char *const *environment, int memory_file, int64_t memory, const char *const *readable,
    int readable_count, pid_t *process, int *connection);

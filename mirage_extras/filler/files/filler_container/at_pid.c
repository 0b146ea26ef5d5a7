/* at_pid PID PROGRAM [ARGUMENT...]: starts PROGRAM as a process with the id PID, as a child of this program's parent.
 *
 * CRIU restores a process with the id that it had. An id that no other process gets by chance can be restored on every host. Needs
 * CAP_CHECKPOINT_RESTORE. The process has a session of its own, no signal blocked, /dev/null as its standard files, and no other
 * open file; it is killed when its parent ends.
 *
 * Exit code: 0, started; 1, refused by the kernel; 2, wrong use; 3, a process with this id exists. One line on stderr tells the
 * reason. The process ends with 127 when PROGRAM cannot be executed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static _Noreturn void become(pid_t parent, char **command)
{
    sigset_t none;
    int null = open("/dev/null", O_RDWR);

    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 || signal(SIGPIPE, SIG_DFL) == SIG_ERR || setsid() < 0)
        _exit(127);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(127);
    if (syscall(SYS_close_range, 3U, ~0U, 0) < 0 || chdir("/") < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        _exit(127);
    if (getppid() != parent)
        _exit(127);
    execv(command[0], command);
    _exit(127);
}

int main(int count, char **words)
{
    char *end = NULL;
    long number = count > 2 ? strtol(words[1], &end, 10) : 0;
    pid_t pid = (pid_t)number;
    pid_t parent = getppid();
    /* Returns when PROGRAM runs (CLONE_VFORK). The signal at its end is that of this program: SIGCHLD to the parent. */
    struct clone_args how = {.flags = CLONE_PARENT | CLONE_VFORK, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};
    long made;

    if (number < 2 || number > 4194304 || *end) {
        fprintf(stderr, "at_pid: wrong use: at_pid PID PROGRAM [ARGUMENT...], with PID from 2 to 4194304\n");
        return 2;
    }
    made = syscall(SYS_clone3, &how, sizeof how);
    if (made < 0) {
        fprintf(stderr, "at_pid: process id %ld: %s\n", number, strerror(errno));
        return errno == EEXIST ? 3 : 1;
    }
    if (made == 0)
        become(parent, words + 2);
    return 0;
}

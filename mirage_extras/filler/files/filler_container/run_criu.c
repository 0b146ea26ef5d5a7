/* run_criu [OPTION...]: runs the program `criu` in the folder of this program, with this program's capabilities and without any way
 * to more of them.
 *
 * CRIU restores a process from files that a user may have changed, also with a bounding set without CAP_SETUID, in which a
 * set-user-id program cannot give up its rights. So CRIU, and with it each process that it restores, has no_new_privs: from then on
 * the kernel ignores set-user-id and file capabilities of all programs that they execute. The capabilities are given to CRIU as
 * ambient ones, since file capabilities would be ignored, too.
 *
 * Exit code: CRIU's; 1 if it cannot be executed, with one line on stderr.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char NAME[] = "criu";

static int failed(const char *what)
{
    fprintf(stderr, "run_criu: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Makes all permitted capabilities ambient. */
static int keep_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    unsigned long number;

    if (syscall(SYS_capget, &header, sets) < 0)
        return -1;
    sets[0].inheritable = sets[0].permitted;
    sets[1].inheritable = sets[1].permitted;
    if (syscall(SYS_capset, &header, sets) < 0)
        return -1;
    for (number = 0; number < 64; number++)
        if (sets[number / 32].permitted >> number % 32 & 1U && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number, 0L, 0L) < 0)
            return -1;
    return 0;
}

int main(int count, char **words)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    char *name;

    (void)count;
    if (length <= 0 || (size_t)length >= sizeof path - sizeof NAME)
        return failed("/proc/self/exe");
    path[length] = '\0';
    name = strrchr(path, '/');
    if (!name)
        return failed(path);
    memcpy(name + 1, NAME, sizeof NAME);
    if (keep_capabilities() < 0)
        return failed("capabilities");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0)
        return failed("no_new_privs");
    execv(path, words);
    return failed(path);
}

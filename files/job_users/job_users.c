/*
 * A library that lets Slurm know the users of a log, whom the host does not have. It is preloaded (LD_PRELOAD, ld.so(8)).
 *
 * User 12 of a log is the user u12 with the id FIRST + 12. Jobs belong to these users in slurmctld and slurmdbd only: all processes
 * run as the instance's user, who is Slurm's SlurmUser. README.md says which function is replaced for what.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* rm/slurm/job_users.py has the same numbers. */
enum { FIRST = 1900000000, COUNT = 200000000 };

/* More than the name of such a user. */
enum { NAME_SIZE = 16 };

static int (*real_getpwnam_r)(const char *, struct passwd *, char *, size_t, struct passwd **);
static int (*real_getpwuid_r)(uid_t, struct passwd *, char *, size_t, struct passwd **);
static struct passwd *(*real_getpwnam)(const char *);
static struct passwd *(*real_getpwuid)(uid_t);
static int (*real_getgrouplist)(const char *, gid_t, gid_t *, int *);

static bool submits_as_other; /* this program is sbatch with --uid, which only root may give */

static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

/* The C library gives constructors the arguments of main. */
__attribute__((constructor)) static void set_up(int count, char **arguments)
{
    find("getpwnam_r", &real_getpwnam_r);
    find("getpwuid_r", &real_getpwuid_r);
    find("getpwnam", &real_getpwnam);
    find("getpwuid", &real_getpwuid);
    find("getgrouplist", &real_getgrouplist);
    bool is_sbatch = strcmp(program_invocation_short_name, "sbatch") == 0;
    for (int i = 1; is_sbatch && i < count; i++)
        submits_as_other = submits_as_other || strncmp(arguments[i], "--uid=", strlen("--uid=")) == 0;
}

static bool is_of_log(uid_t id)
{
    return id >= FIRST && id - FIRST < COUNT;
}

/* The id of a user of a log by its name: u and a number without leading zeros. FIRST + COUNT for other names. */
static uid_t id_of(const char *name)
{
    uid_t number = 0;
    const char *digit = name + 1;
    if (name[0] != 'u' || *digit == '\0' || (*digit == '0' && digit[1] != '\0'))
        return FIRST + COUNT;
    for (; *digit; digit++) {
        if (*digit < '0' || *digit > '9' || number >= COUNT)
            return FIRST + COUNT;
        number = number * 10 + (uid_t)(*digit - '0');
    }
    return FIRST + (number < COUNT ? number : COUNT);
}

static int fill(uid_t id, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
    *result = NULL;
    if (size < NAME_SIZE)
        return ERANGE;
    (void)snprintf(buffer, size, "u%u", id - FIRST);
    static char nothing[] = "", password[] = "x", home[] = "/", shell[] = "/bin/sh";
    *entry = (struct passwd){.pw_name = buffer,
                             .pw_passwd = password,
                             .pw_uid = id,
                             .pw_gid = getgid(),
                             .pw_gecos = nothing,
                             .pw_dir = home,
                             .pw_shell = shell};
    *result = entry;
    return 0;
}

EXPORT int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
    uid_t id = id_of(name);
    return is_of_log(id) ? fill(id, entry, buffer, size, result) : real_getpwnam_r(name, entry, buffer, size, result);
}

EXPORT int getpwuid_r(uid_t id, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
    return is_of_log(id) ? fill(id, entry, buffer, size, result) : real_getpwuid_r(id, entry, buffer, size, result);
}

static struct passwd *kept(uid_t id)
{
    static struct passwd entry, *result;
    static char buffer[NAME_SIZE];
    (void)fill(id, &entry, buffer, sizeof buffer, &result);
    return result;
}

EXPORT struct passwd *getpwnam(const char *name)
{
    uid_t id = id_of(name);
    return is_of_log(id) ? kept(id) : real_getpwnam(name);
}

EXPORT struct passwd *getpwuid(uid_t id)
{
    return is_of_log(id) ? kept(id) : real_getpwuid(id);
}

/* A user of a log is in one group, that of the job. */
EXPORT int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count)
{
    if (!is_of_log(id_of(user)))
        return real_getgrouplist(user, group, groups, count);
    int room = *count;
    *count = 1;
    if (room < 1)
        return -1;
    groups[0] = group;
    return 1;
}

EXPORT uid_t getuid(void)
{
    return submits_as_other ? 0 : (uid_t)syscall(SYS_getuid);
}

/* A file that is given to a user of a log keeps its owner. */
EXPORT int chown(const char *path, uid_t owner, gid_t group)
{
    return fchownat(AT_FDCWD, path, is_of_log(owner) ? (uid_t)-1 : owner, group, 0);
}

/*
 * A library that lets Slurm know the users of a log, whom the host does not have. It is preloaded (LD_PRELOAD, ld.so(8)).
 *
 * User 12 of a log is the user u12 with the id FIRST + 12. Jobs belong to these users in slurmctld and slurmdbd only: all processes
 * run as the instance's user, who is Slurm's SlurmUser. A sandbox also has users with names, whose jobs and shells are processes of
 * theirs: each owns a folder of his name in the folder `users` of the instance. README.md says which function is replaced for what.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* rm/slurm/job_users.py has the same numbers. */
enum { FIRST = 1900000000, COUNT = 200000000 };

/* base/processes.py has the same numbers, for ids of users with names and of their groups; users.py the longest name. */
#define NAMED_FIRST 2100000000U
#define NAMED_COUNT 47000000U
#define NO_ONE ((uid_t) - 1)
enum { NAME_SIZE = 32 };

/* The farm sets this for slurmd of a sandbox, which is root of a user namespace: the id of the instance's user outside of it. */
#define INSIDE "SLURM_MIRAGE_INSIDE"

static int (*real_getpwnam_r)(const char *, struct passwd *, char *, size_t, struct passwd **);
static int (*real_getpwuid_r)(uid_t, struct passwd *, char *, size_t, struct passwd **);
static struct passwd *(*real_getpwnam)(const char *);
static struct passwd *(*real_getpwuid)(uid_t);
static int (*real_getgrouplist)(const char *, gid_t, gid_t *, int *);

static int (*real_setuid)(uid_t);
static int (*real_seteuid)(uid_t);
static int (*real_setreuid)(uid_t, uid_t);
static int (*real_setresuid)(uid_t, uid_t, uid_t);

static char users[PATH_MAX];  /* folder of a sandbox's users; empty in other instances */
static bool is_inside;        /* this program is in the user namespace */
static uid_t instance_user;   /* of a sandbox, as the host sees it */
static bool submits_as_other; /* this program is sbatch with --uid, which only root may give */

static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

static void find_users(void)
{
    Dl_info own;
    const char *inside = getenv(INSIDE);
    char run[PATH_MAX];
    struct stat status;
    if (!dladdr((void *)&users, &own) || !own.dli_fname)
        return;
    const char *end = strstr(own.dli_fname, "/lib/job_users.so");
    int length = end ? (int)(end - own.dli_fname) : 0;
    if (!end || snprintf(users, sizeof users, "%.*s/users", length, own.dli_fname) >= (int)sizeof users ||
        stat(users, &status) != 0 || snprintf(run, sizeof run, "%.*s/run", length, own.dli_fname) >= (int)sizeof run ||
        stat(run, &status) != 0) {
        users[0] = '\0';
        return;
    }
    is_inside = inside != NULL;
    instance_user = inside ? (uid_t)strtoul(inside, NULL, 10) : status.st_uid;
}

/* The C library gives constructors the arguments of main. */
__attribute__((constructor)) static void set_up(int count, char **arguments)
{
    find("getpwnam_r", &real_getpwnam_r);
    find("getpwuid_r", &real_getpwuid_r);
    find("getpwnam", &real_getpwnam);
    find("getpwuid", &real_getpwuid);
    find("getgrouplist", &real_getgrouplist);
    find("setuid", &real_setuid);
    find("seteuid", &real_seteuid);
    find("setreuid", &real_setreuid);
    find("setresuid", &real_setresuid);
    find_users();
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

static bool is_named(uid_t id)
{
    return id >= NAMED_FIRST && id - NAMED_FIRST < NAMED_COUNT;
}

/* The id of a user with a name; NO_ONE for other names. */
static uid_t named_id(const char *name)
{
    char path[PATH_MAX + NAME_SIZE];
    struct stat status;
    if (!users[0] || name[0] == '.' || name[0] == '\0' || strchr(name, '/') || strlen(name) >= NAME_SIZE)
        return NO_ONE;
    (void)snprintf(path, sizeof path, "%s/%s", users, name);
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && is_named(status.st_uid) ? status.st_uid : NO_ONE;
}

/* The name of the user with an id. */
static bool name_of(uid_t id, char *name)
{
    if (is_of_log(id)) {
        (void)snprintf(name, NAME_SIZE, "u%u", id - FIRST);
        return true;
    }
    DIR *folder = is_named(id) && users[0] ? opendir(users) : NULL;
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        found = named_id(entry->d_name) == id;
        if (found)
            (void)snprintf(name, NAME_SIZE, "%.*s", NAME_SIZE - 1, entry->d_name);
    }
    if (folder)
        (void)closedir(folder);
    return found;
}

static bool is_known(uid_t id)
{
    return is_of_log(id) || is_named(id);
}

static uid_t id_of_any(const char *name)
{
    uid_t id = id_of(name);
    return is_of_log(id) ? id : named_id(name);
}

static int fill(uid_t id, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
    char name[NAME_SIZE];
    *result = NULL;
    if (!name_of(id, name))
        return 0;
    size_t used = strlen(name) + 1;
    const bool named = is_named(id);
    if (size < used + (named ? strlen(users) + 1 + used : 0))
        return ERANGE;
    memcpy(buffer, name, used);
    static char nothing[] = "", password[] = "x", root[] = "/", shell[] = "/bin/sh";
    char *home = root;
    gid_t group = getgid();
    if (named) {
        struct stat status;
        home = buffer + used;
        (void)snprintf(home, size - used, "%s/%s", users, name);
        if (lstat(home, &status) != 0)
            return 0;
        group = status.st_gid;
    }
    *entry = (struct passwd){.pw_name = buffer,
                             .pw_passwd = password,
                             .pw_uid = id,
                             .pw_gid = group,
                             .pw_gecos = nothing,
                             .pw_dir = home,
                             .pw_shell = shell};
    *result = entry;
    return 0;
}

EXPORT int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
    uid_t id = id_of_any(name);
    return is_known(id) ? fill(id, entry, buffer, size, result) : real_getpwnam_r(name, entry, buffer, size, result);
}

EXPORT int getpwuid_r(uid_t id, struct passwd *entry, char *buffer, size_t size, struct passwd **result)
{
    return is_known(id) ? fill(id, entry, buffer, size, result) : real_getpwuid_r(id, entry, buffer, size, result);
}

static struct passwd *kept(uid_t id)
{
    static struct passwd entry, *result;
    static char buffer[PATH_MAX + 2 * NAME_SIZE];
    (void)fill(id, &entry, buffer, sizeof buffer, &result);
    return result;
}

EXPORT struct passwd *getpwnam(const char *name)
{
    uid_t id = id_of_any(name);
    return is_known(id) ? kept(id) : real_getpwnam(name);
}

EXPORT struct passwd *getpwuid(uid_t id)
{
    return is_known(id) ? kept(id) : real_getpwuid(id);
}

/* Such a user is in one group, that of the job. */
EXPORT int getgrouplist(const char *user, gid_t group, gid_t *groups, int *count)
{
    if (!is_known(id_of_any(user)))
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

/* In the user namespace, where jobs of the instance's user and of users of a log are processes of its root. */
static uid_t inside(uid_t id)
{
    return is_inside && (id == instance_user || is_of_log(id)) ? 0 : id;
}

/* A file that is given to a user of a log keeps its owner. */
EXPORT int chown(const char *path, uid_t owner, gid_t group)
{
    return fchownat(AT_FDCWD, path, is_of_log(owner) ? (uid_t)-1 : inside(owner), group, 0);
}

EXPORT int setuid(uid_t id)
{
    return real_setuid(inside(id));
}

EXPORT int seteuid(uid_t id)
{
    return real_seteuid(inside(id));
}

EXPORT int setreuid(uid_t real, uid_t effective)
{
    return real_setreuid(inside(real), inside(effective));
}

EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved)
{
    return real_setresuid(inside(real), inside(effective), inside(saved));
}

/*
 * Slurm has munged give a credential for slurmd to the user SlurmdUser only. That is root in a sandbox, who is the instance's user
 * outside of the user namespace, where munged is. These two are libmunge's interface (munge_ctx(3)).
 */
enum { MUNGE_OPT_UID_RESTRICTION = 9 };
int munge_ctx_set(void *context, int option, ...);

EXPORT int munge_ctx_set(void *context, int option, ...)
{
    static __typeof__(&munge_ctx_set) real;
    va_list rest;
    va_start(rest, option);
    void *value = va_arg(rest, void *); /* in a register, as an id or a time would be */
    va_end(rest);
    if (!real) {
        void *library = dlopen("libmunge.so.2", RTLD_LAZY | RTLD_NOLOAD);
        __typeof__(&munge_ctx_set) found = NULL;
        if (library) {
            void *symbol = dlsym(library, "munge_ctx_set");
            memcpy(&found, &symbol, sizeof found);
        }
        if (!found)
            return 1; /* EMUNGE_SNAFU */
        real = found;
    }
    if (option == MUNGE_OPT_UID_RESTRICTION && users[0] && (uid_t)(uintptr_t)value == 0)
        return real(context, option, instance_user);
    return real(context, option, value);
}

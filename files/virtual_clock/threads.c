/* The threads of a user and their states, read from /proc. */
#define _GNU_SOURCE
#include "threads.h"
#include "openpbs_quirks.h"
#include "slurm_quirks.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define THREAD_NUMBERS 4194304 /* one more than the largest that Linux gives (PID_MAX_LIMIT) */
#define FIRST_TIDYING 256      /* threads */
#define OTHER_FILES 64         /* of this process, at most */

/* ---- files that stay open ---- */

/* Descriptors of a thread's files; 0: not open. */
struct files {
    int stat;
    int wchan;
    bool is_listed; /* in `listed` */
};

static struct files *kept;  /* by the thread's number; only what is used takes memory */
static pid_t *listed;       /* threads with open files, and some that have ended */
static size_t listed_count; /* at most `most_listed` */
static size_t most_listed;
static size_t tidied_at = FIRST_TIDYING; /* so many are tidied */

static void close_files(struct files *files)
{
    if (files->stat)
        close(files->stat);
    if (files->wchan)
        close(files->wchan);
    files->stat = files->wchan = 0;
}

/* Closes the files of threads that have ended. */
static void tidy(void)
{
    char first;
    size_t left = 0;
    for (size_t i = 0; i < listed_count; i++) {
        struct files *files = &kept[listed[i]];
        if (files->stat && pread(files->stat, &first, 1, 0) == 1) {
            listed[left++] = listed[i];
            continue;
        }
        close_files(files);
        files->is_listed = false;
    }
    listed_count = left;
    tidied_at = 2 * left + FIRST_TIDYING < most_listed ? 2 * left + FIRST_TIDYING : most_listed;
}

/* Whether files of one more thread may stay open. */
static bool has_room(void)
{
    static size_t refused;
    if (!kept) {
        struct rlimit files;
        size_t most =
            getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > OTHER_FILES ? (files.rlim_cur - OTHER_FILES) / 2 : 0;
        most_listed = most < THREAD_NUMBERS ? most : THREAD_NUMBERS;
        tidied_at = tidied_at < most_listed ? tidied_at : most_listed;
        listed = calloc(most_listed + 1, sizeof *listed);
        kept = listed ? calloc(THREAD_NUMBERS, sizeof *kept) : NULL;
        if (!kept) {
            free(listed);
            return false;
        }
    }
    if (listed_count < tidied_at)
        return true;
    if (listed_count == most_listed && ++refused < most_listed)
        return false; /* not at each thread when there are too many */
    refused = 0;
    tidy();
    return listed_count < tidied_at;
}

/* The thread's files, where they stay open or may do so; else null. */
static struct files *files_of(pid_t thread)
{
    if (thread <= 0 || thread >= THREAD_NUMBERS)
        return NULL;
    if (kept && kept[thread].is_listed)
        return &kept[thread];
    if (!has_room())
        return NULL;
    listed[listed_count++] = thread;
    kept[thread].is_listed = true;
    return &kept[thread];
}

/* ---- states ---- */

/* What a thread's file `stat` says; `text` has room for a byte after `length`. */
static char state_in(char *text, ssize_t length, char *name, long *threads)
{
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *begin = strchr(text, '(');
    const char *end = strrchr(text, ')'); /* a name may contain one */
    if (!begin || !end || end < begin || end + 2 >= text + length)
        return 0;
    size_t size = (size_t)(end - begin - 1) < 15 ? (size_t)(end - begin - 1) : 15;
    memcpy(name, begin + 1, size);
    name[size] = '\0';
    const char *field = end + 2; /* the third; the 20th is the number of threads */
    for (int number = 3; field && number < 20; number++)
        field = strchr(field + 1, ' ');
    *threads = field ? strtol(field, NULL, 10) : 0;
    return end[2];
}

static char read_state(pid_t process, pid_t thread, char *name, long *threads, struct files *files)
{
    char path[64];
    char text[256];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    char state = state_in(text, pread(file, text, sizeof text - 1, 0), name, threads);
    if (state && files)
        files->stat = file;
    else
        close(file);
    return state;
}

char thread_state(pid_t process, pid_t thread, char *name, long *threads)
{
    return read_state(process, thread, name, threads, NULL);
}

char kept_thread_state(pid_t process, pid_t thread, char *name, long *threads)
{
    char text[256];
    struct files *files = files_of(thread);
    if (files && files->stat) {
        char state = state_in(text, pread(files->stat, text, sizeof text - 1, 0), name, threads);
        if (state)
            return state;
        close_files(files);    /* the thread has ended, and another one may have its number */
        if (thread == process) /* it may be another user's */
            return 0;
    }
    return read_state(process, thread, name, threads, files);
}

static bool is_nowhere(int wchan)
{
    char text[2];
    return pread(wchan, text, sizeof text, 0) == 1 && text[0] == '0';
}

bool is_preempted(pid_t thread, uid_t user)
{
    char path[64];
    struct stat status;
    struct files *files = files_of(thread);
    if (files && files->wchan) {
        if (!is_nowhere(files->wchan))
            return false;
        close(files->wchan); /* the thread may have become one that may not be traced */
        files->wchan = 0;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/wchan", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool is_shown = fstat(file, &status) == 0 && status.st_uid == user;
    bool result = is_shown && is_nowhere(file);
    if (is_shown && files && files->stat)
        files->wchan = file;
    else
        close(file);
    return result;
}

/* Opens a file of a thread in /proc; null if the thread has ended. */
static FILE *open_file_of(pid_t thread, const char *name)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", thread, name);
    return fopen(path, "re");
}

pid_t innermost_id(pid_t thread)
{
    char line[256];
    pid_t id = 0;
    FILE *status = open_file_of(thread, "status");
    while (status && fgets(line, sizeof line, status)) {
        const char *last = strrchr(line, '\t'); /* the ids are separated by tabs */
        if (strncmp(line, "NSpid:", 6) == 0 && last)
            id = (pid_t)strtol(last, NULL, 10);
    }
    if (status)
        (void)fclose(status);
    return id;
}

long switches_of(pid_t thread)
{
    char line[256];
    long sum = -1;
    FILE *status = open_file_of(thread, "status");
    while (status && fgets(line, sizeof line, status)) {
        const char *count = strstr(line, "voluntary_ctxt_switches:"); /* nonvoluntary ones, too */
        if (count)
            sum = (sum < 0 ? 0 : sum) + strtol(strchr(count, ':') + 1, NULL, 10);
    }
    if (status)
        (void)fclose(status);
    return sum;
}

bool has_mapped(pid_t thread, ino_t file)
{
    char line[256];
    unsigned long inode;
    FILE *maps = open_file_of(thread, "maps");
    bool has_memory = false;
    bool is_found = false;
    while (maps && !is_found && fgets(line, sizeof line, maps)) {
        has_memory = true;
        is_found = sscanf(line, "%*x-%*x %*s %*x %*x:%*x %lu", &inode) == 1 && inode == file;
    }
    if (maps)
        (void)fclose(maps);
    return is_found || !has_memory;
}

bool is_work(char state, const char *name, bool with_stopped)
{
    bool is_daemons =
        strncmp(name, SLURM_DAEMONS, strlen(SLURM_DAEMONS)) == 0 || strncmp(name, OPENPBS_DAEMONS, strlen(OPENPBS_DAEMONS)) == 0;
    bool is_stopped_daemon = (state == 'T' || state == 't') && is_daemons;
    return state == 'R' || state == 'D' || (with_stopped && is_stopped_daemon);
}

/* ---- all threads ---- */

static bool is_of(uid_t user, const char *process, int directory)
{
    struct stat status;
    return fstatat(directory, process, &status, 0) == 0 && status.st_uid == user;
}

/* Whether a file of the process is open, so that it need not be asked whose it is. */
static bool is_kept(pid_t process)
{
    return kept && process < THREAD_NUMBERS && kept[process].stat;
}

static bool threads_of(pid_t process, state_reader state_of, bool (*found)(pid_t, char, const char *))
{
    char path[64];
    char name[16];
    long threads = 0;
    char state = state_of(process, process, name, &threads);
    if (!state)
        return true;
    bool goes_on = found(process, state, name);
    if (!goes_on || threads == 1)
        return goes_on;
    (void)snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    if (!tasks)
        return true;
    for (struct dirent *entry; goes_on && (entry = readdir(tasks));) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread <= 0 || thread == process)
            continue;
        state = state_of(process, thread, name, &threads);
        goes_on = !state || found(thread, state, name);
    }
    closedir(tasks);
    return goes_on;
}

void for_each_thread(uid_t user, state_reader state_of, bool (*found)(pid_t, char, const char *))
{
    DIR *processes = opendir("/proc");
    pid_t self = getpid();
    bool goes_on = processes != NULL;
    for (struct dirent *entry; goes_on && (entry = readdir(processes));) {
        pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        if (process <= 0 || process == self)
            continue;
        bool was_kept = state_of == kept_thread_state && is_kept(process);
        if (was_kept)
            goes_on = threads_of(process, state_of, found);
        if ((!was_kept || !is_kept(process)) && goes_on && is_of(user, entry->d_name, dirfd(processes)))
            goes_on = threads_of(process, state_of, found);
    }
    if (processes)
        closedir(processes);
}

void for_each_softirq_thread(bool (*found)(pid_t, char, const char *))
{
    char name[16];
    long threads;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        if (process <= 0)
            continue;
        char state = thread_state(process, process, name, &threads);
        if (state && strncmp(name, "ksoftirqd/", 10) == 0)
            found(process, state, name);
    }
    if (processes)
        closedir(processes);
}

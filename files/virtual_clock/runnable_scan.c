/* The states of an instance's threads by reading /proc. */
#define _GNU_SOURCE
#include "runnable.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND INT64_C(1000000)

char thread_state(pid_t process, pid_t thread, char *name)
{
    char path[64];
    char text[256];
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
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
    return end[2];
}

bool is_work(char state, const char *name, bool with_stopped)
{
    bool is_stopped_daemon = (state == 'T' || state == 't') && strncmp(name, "slurm", 5) == 0;
    return state == 'R' || state == 'D' || (with_stopped && is_stopped_daemon);
}

static bool threads_of(pid_t process, bool (*found)(pid_t, char, const char *))
{
    char path[64];
    char name[16];
    bool goes_on = true;
    (void)snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *tasks = opendir(path);
    if (!tasks)
        return true;
    for (struct dirent *entry; goes_on && (entry = readdir(tasks));) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread <= 0)
            continue;
        char state = thread_state(process, thread, name);
        goes_on = !state || found(thread, state, name);
    }
    closedir(tasks);
    return goes_on;
}

void for_each_thread(uid_t user, bool (*found)(pid_t, char, const char *))
{
    DIR *processes = opendir("/proc");
    bool goes_on = processes != NULL;
    for (struct dirent *entry; goes_on && (entry = readdir(processes));) {
        pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        struct stat status;
        if (process > 0 && process != getpid() && fstatat(dirfd(processes), entry->d_name, &status, 0) == 0 && status.st_uid == user)
            goes_on = threads_of(process, found);
    }
    if (processes)
        closedir(processes);
}

void for_each_softirq_thread(bool (*found)(pid_t, char, const char *))
{
    char name[16];
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        pid_t process = (pid_t)strtol(entry->d_name, NULL, 10);
        if (process <= 0)
            continue;
        char state = thread_state(process, process, name);
        if (state && strncmp(name, "ksoftirqd/", 10) == 0)
            found(process, state, name);
    }
    if (processes)
        closedir(processes);
}

static uid_t scanned_user;
static bool is_working;
static bool counts_stopped = true;
static bool counts_preempted; /* in this look */
static bool shows_preempted = true;

/*
 * Whether a thread in the state of a sleep still has its processor or waits for one: the state is set before the thread looks for the
 * last time whether it has to sleep at all, and it may be preempted there. The kernel then shows no function in which it waits. It never
 * shows one of a process that this user may not trace, such as the farm, whose files in /proc are root's: that one counts as asleep.
 */
static bool is_preempted(pid_t thread)
{
    char path[64];
    char text[2];
    struct stat status;
    (void)snprintf(path, sizeof path, "/proc/%d/wchan", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool is_shown = fstat(file, &status) == 0 && status.st_uid == scanned_user;
    ssize_t size = read(file, text, sizeof text);
    close(file);
    return is_shown && size == 1 && text[0] == '0';
}

static bool look_at(pid_t thread, char state, const char *name)
{
    is_working = is_work(state, name, counts_stopped) || (counts_preempted && state == 'S' && is_preempted(thread));
    return !is_working;
}

static bool look(bool with_preempted)
{
    counts_preempted = with_preempted;
    is_working = false;
    for_each_thread(scanned_user, look_at);
    return is_working;
}

static bool any(void)
{
    /* Twice, because a thread may wake another one up that has been looked at already, and then sleep. */
    return look(false) || look(shows_preempted);
}

static uint64_t surprises(void)
{
    return 0; /* they are not seen */
}

static void wait_a_little(int64_t longest)
{
    struct timespec pause = {.tv_nsec = longest < MILLISECOND / 2 ? longest : MILLISECOND / 2};
    if (longest > 0)
        nanosleep(&pause, NULL);
}

static void verify(bool stopped)
{
    const struct timespec pause = {.tv_nsec = 20 * MILLISECOND};
    counts_stopped = !stopped;
    /* The kernel may keep to itself where any thread waits. */
    for (int looks = 0; looks < 5; looks++) {
        if (!shows_preempted || look(false) || !look(true))
            return;
        nanosleep(&pause, NULL);
    }
    shows_preempted = false;
}

void runnable_by_scan(struct runnable *runnable, uid_t user)
{
    scanned_user = user;
    *runnable = (struct runnable){BY_SCAN, any, surprises, wait_a_little, verify};
}

/* Binds the scheduler and the coordinator to one processor (sched_setaffinity(2)). processor.h says when. */
#define _GNU_SOURCE
#include "processor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PERIOD INT64_C(100000000)  /* real ns between two looks at how long the threads have waited */
#define LONGEST_DELAY (PERIOD / 2) /* of all threads together; a fourth of it while they work in turns */

static cpu_set_t all_processors; /* what this process was given when it started */
static pid_t bound;              /* the scheduler, 0: none */
static bool is_together;         /* it is on one processor at present */
static int64_t looks_at, delay_before;

/* Nanoseconds for which a thread could run but had no processor; 0 if it is not known. */
static int64_t delay_of(pid_t process, pid_t thread)
{
    char path[64];
    char text[96] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    char *field = text;
    if (length > 0)
        (void)strtoll(text, &field, 10); /* time on a processor */
    return strtoll(field, NULL, 10);
}

/* Sets the processors of all threads of a process, unless `processors` is null. Returns the sum of their delays. */
static int64_t visit_threads(pid_t process, const cpu_set_t *processors)
{
    char path[64];
    int64_t delay = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *threads = opendir(path);
    if (!threads)
        return 0;
    for (const struct dirent *entry = readdir(threads); entry; entry = readdir(threads)) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread <= 0)
            continue;
        if (processors)
            (void)sched_setaffinity(thread, sizeof *processors, processors);
        delay += delay_of(process, thread);
    }
    closedir(threads);
    return delay;
}

static void put(const cpu_set_t *processors)
{
    (void)sched_setaffinity(0, sizeof *processors, processors);
    delay_before = visit_threads(bound, processors);
}

static void put_together(void)
{
    cpu_set_t one;
    int here = sched_getcpu();
    CPU_ZERO(&one);
    if (here < 0 || here >= CPU_SETSIZE)
        return;
    CPU_SET(here, &one);
    put(&one);
    is_together = true;
}

static void release(void)
{
    put(&all_processors);
    is_together = false;
}

void share_processor(pid_t scheduler, int64_t mono)
{
    static int count;
    if (count == 0)
        count = sched_getaffinity(0, sizeof all_processors, &all_processors) == 0 ? CPU_COUNT(&all_processors) : 1;
    if (count < 2)
        return;
    if (scheduler != bound) {
        if (bound)
            release();
        bound = scheduler;
        looks_at = mono;
    }
    if (!bound || mono < looks_at)
        return;
    looks_at = mono + PERIOD;
    if (!is_together) {
        put_together();
        return;
    }
    int64_t delay = visit_threads(bound, NULL);
    if (delay - delay_before > LONGEST_DELAY)
        release();
    else
        delay_before = delay;
}

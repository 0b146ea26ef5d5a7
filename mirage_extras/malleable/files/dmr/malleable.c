/* See malleable.h. */
#define _GNU_SOURCE
#include "malleable.h"

#include "dmr.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 4096 };

static const char usage[] =
    "usage: --rows N (%d or more) --iterations N [--minimum N] [--maximum N] [--factor N (2 or more)] [--preferred N] "
    "[--request ITERATION:NODES] [--asynchronous]\n";

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static _Noreturn void failed(const char *name, const char *what)
{
    fprintf(stderr, "%s: failed: ", name);
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static size_t first_row(const struct malleable *m, int block)
{
    return (size_t)block * m->rows / BLOCKS;
}

static int first_block(const struct malleable *m, int rank)
{
    return rank * BLOCKS / m->processes;
}

/* The path of a file in DMR_STATE; false where the processes cannot be replaced. */
static bool state_path(char *path, const char *name)
{
    const char *folder = getenv("DMR_STATE");
    return folder && snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static bool requested(struct malleable *m, const char *text)
{
    char *end;
    if (m->requests == REQUESTS)
        return false;
    long iteration = strtol(text, &end, 10);
    if (*end != ':' || iteration <= (m->requests > 0 ? m->request[m->requests - 1].iteration : 0))
        return false;
    long nodes = strtol(end + 1, &end, 10);
    if (*end || nodes < 1 || nodes > BLOCKS)
        return false;
    m->request[m->requests].iteration = iteration;
    m->request[m->requests++].nodes = (int)nodes;
    return true;
}

static void options(struct malleable *m, int argc, char **argv)
{
    static const struct option known[] = {
        {"rows", required_argument, NULL, 'r'},
        {"iterations", required_argument, NULL, 'i'},
        {"minimum", required_argument, NULL, 'm'},
        {"maximum", required_argument, NULL, 'M'},
        {"factor", required_argument, NULL, 'f'},
        {"preferred", required_argument, NULL, 'p'},
        {"request", required_argument, NULL, 'q'},
        {"asynchronous", no_argument, NULL, 'a'},
        {NULL, 0, NULL, 0},
    };
    long number[128] = {['m'] = 1, ['M'] = BLOCKS, ['f'] = 2};
    bool right = true;
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?' || option == ':') {
            right = false;
        } else if (option == 'q' && optarg) {
            right = requested(m, optarg) && right;
        } else if (optarg) {
            char *end;
            number[option] = strtol(optarg, &end, 10);
            right = right && *optarg && !*end && number[option] >= 0 && number[option] <= 1000000000;
        } else {
            m->asynchronous = true;
        }
    }
    m->rows = (size_t)number['r'];
    m->iterations = number['i'];
    m->minimum = (int)number['m'];
    m->maximum = (int)number['M'];
    m->factor = (int)number['f'];
    m->preferred = (int)number['p'];
    right = right && optind == argc && m->rows >= BLOCKS && m->iterations > 0 && m->minimum > 0 && m->minimum <= m->maximum &&
            m->factor > 1;
    if (m->maximum > BLOCKS)
        m->maximum = BLOCKS;
    if (right && m->processes <= BLOCKS)
        return;
    if (m->rank == 0) {
        fprintf(stderr, "%s: wrong use: ", m->name);
        if (right)
            fprintf(stderr, "%d processes are more than %d\n", m->processes, BLOCKS);
        else
            fprintf(stderr, usage, BLOCKS);
    }
    MPI_Finalize();
    exit(2);
}

static void transfer(int file, void *data, size_t size, size_t offset, bool writes, const char *name)
{
    char *at = data;
    while (size > 0) {
        ssize_t count = writes ? pwrite(file, at, size, (off_t)offset) : pread(file, at, size, (off_t)offset);
        if (count <= 0)
            failed(name, writes ? "write of the state" : "read of the state");
        at += count;
        size -= (size_t)count;
        offset += (size_t)count;
    }
}

static int opened_state(const struct malleable *m, int flags)
{
    char path[PATH_MAX];
    if (!state_path(path, "state"))
        failed(m->name, "DMR_STATE");
    int file = open(path, flags | O_CLOEXEC, 0600);
    if (file < 0)
        failed(m->name, path);
    return file;
}

void malleable_start(struct malleable *m, const char *name, int argc, char **argv)
{
    *m = (struct malleable){.name = name};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &m->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &m->processes);
    options(m, argc, argv);
    m->first = first_row(m, first_block(m, m->rank));
    m->own = first_row(m, first_block(m, m->rank + 1)) - m->first;
    char path[PATH_MAX];
    m->resumed = state_path(path, "state") && access(path, R_OK) == 0;
    if (m->resumed) {
        int file = opened_state(m, O_RDONLY);
        transfer(file, &m->iteration, sizeof m->iteration, 0, false, name);
        transfer(file, m->scalars, sizeof m->scalars, sizeof m->iteration, false, name);
        close(file);
    }
    m->fresh = true;
}

/* Where this process's part of an array is in the file. */
static size_t offset_of(const struct malleable *m, int array)
{
    size_t offset = HEADER;
    for (int i = 0; i < array; i++)
        offset += m->rows * m->array[i].width * sizeof(double);
    return offset + m->first * m->array[array].width * sizeof(double);
}

double *malleable_memory(const struct malleable *m, size_t count)
{
    double *memory = calloc(count, sizeof(double));
    if (!memory)
        failed(m->name, "memory");
    return memory;
}

double *malleable_array(struct malleable *m, size_t width, bool ghosts)
{
    if (m->arrays == ARRAYS)
        failed(m->name, "too many arrays");
    double *memory = malleable_memory(m, (m->own + 2) * width);
    int number = m->arrays++;
    m->array[number].rows = memory + (ghosts ? width : 0);
    m->array[number].width = width;
    m->array[number].ghosts = ghosts;
    if (m->resumed) {
        int file = opened_state(m, O_RDONLY);
        transfer(file, m->array[number].rows, m->own * width * sizeof(double), offset_of(m, number), false, m->name);
        close(file);
    }
    return m->array[number].rows;
}

bool malleable_resumed(const struct malleable *m)
{
    return m->resumed;
}

void malleable_ghosts(struct malleable *m, double *array, size_t width)
{
    int before = m->rank > 0 ? m->rank - 1 : MPI_PROC_NULL;
    int after = m->rank < m->processes - 1 ? m->rank + 1 : MPI_PROC_NULL;
    double *last = array + (m->own - 1) * width;
    int count = (int)width;
    MPI_Sendrecv(array, count, MPI_DOUBLE, before, 0, last + width, count, MPI_DOUBLE, after, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(last, count, MPI_DOUBLE, after, 1, array - width, count, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

double malleable_dot(const struct malleable *m, const double *a, const double *b, size_t width)
{
    double part[BLOCKS] = {0}, all[BLOCKS];
    int count[BLOCKS], begin[BLOCKS];
    for (int block = first_block(m, m->rank); block < first_block(m, m->rank + 1); block++) {
        size_t end = (first_row(m, block + 1) - m->first) * width;
        for (size_t i = (first_row(m, block) - m->first) * width; i < end; i++)
            part[block] += a[i] * b[i];
    }
    for (int rank = 0; rank < m->processes; rank++) {
        begin[rank] = first_block(m, rank);
        count[rank] = first_block(m, rank + 1) - begin[rank];
    }
    MPI_Allgatherv(part + begin[m->rank], count[m->rank], MPI_DOUBLE, all, count, begin, MPI_DOUBLE, MPI_COMM_WORLD);
    double sum = 0;
    for (int block = 0; block < BLOCKS; block++)
        sum += all[block];
    return sum;
}

/* Tells the broker, once, how long the computation stood still. dmr_run.py gives DMR_STILL_SINCE, without the broker's answers. */
static void tell_cost(struct malleable *m)
{
    const char *since = getenv("DMR_STILL_SINCE");
    MPI_Barrier(MPI_COMM_WORLD);
    if (m->rank != 0 || !since)
        return;
    double cost = now() - strtod(since, NULL);
    dmr_resumed(cost);
    printf("%s: iteration %ld: resumed with %d processes after %.3f s\n", m->name, m->iteration, m->processes, cost);
    fflush(stdout);
}

/* All processes write their state; then rank 0 writes what dmr_run.py has to do. */
static void hand_over(struct malleable *m, enum dmr_action action, int nodes, const char *list, double still_since)
{
    char path[PATH_MAX], partial[PATH_MAX];
    int file = opened_state(m, O_WRONLY | O_CREAT);
    if (m->rank == 0) {
        transfer(file, &m->iteration, sizeof m->iteration, 0, true, m->name);
        transfer(file, m->scalars, sizeof m->scalars, sizeof m->iteration, true, m->name);
    }
    for (int i = 0; i < m->arrays; i++)
        transfer(file, m->array[i].rows, m->own * m->array[i].width * sizeof(double), offset_of(m, i), true, m->name);
    if (close(file) != 0)
        failed(m->name, "write of the state");
    MPI_Barrier(MPI_COMM_WORLD);
    if (m->rank != 0)
        return;
    if (!state_path(path, "resize") || !state_path(partial, "resize.partial"))
        failed(m->name, "DMR_STATE");
    const char *word = action == DMR_EXPAND ? "expand" : "shrink";
    if (action == DMR_SHRINK && dmr_nodes() == nodes)
        word = "lost"; /* the job has these nodes already */
    FILE *out = fopen(partial, "w");
    if (!out || fprintf(out, "%s %d %s %.6f %.6f\n", word, nodes, list, still_since, dmr_checked()) < 0 || fclose(out) != 0 ||
        rename(partial, path) != 0)
        failed(m->name, path);
}

bool malleable_continues(struct malleable *m)
{
    if (m->fresh) {
        if (m->resumed)
            tell_cost(m);
        m->fresh = false;
        return m->iteration < m->iterations;
    }
    m->iteration++;
    if (m->iteration >= m->iterations)
        return false;
    if (!getenv("DMR_STATE"))
        return true;
    for (int i = 0; i < m->requests && m->request[i].iteration <= m->iteration; i++) {
        m->minimum = m->maximum = m->request[i].nodes;
        m->preferred = 0;
    }
    if (m->minimum == m->processes && m->maximum == m->processes)
        return true; /* nothing to ask for */
    int nodes = 0, action = DMR_NONE;
    const char *list = "";
    if (m->rank == 0)
        action = (m->asynchronous ? dmr_icheck_status : dmr_check_status)(m->minimum, m->maximum, m->factor, m->preferred, &nodes,
                                                                          &list);
    double answered = now();
    MPI_Bcast(&action, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (action == DMR_NONE)
        return true;
    hand_over(m, action, nodes, list, answered);
    return false;
}

/* FNV-1a. */
static uint64_t hashed(uint64_t hash, const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ data[i]) * 1099511628211U;
    return hash;
}

/* A hash of all arrays, the same for every number of processes: each row is hashed with the numbers of its array and of the row. */
static uint64_t digest(const struct malleable *m)
{
    uint64_t own = 0, all = 0;
    for (int i = 0; i < m->arrays; i++)
        for (size_t row = 0; row < m->own; row++) {
            uint64_t number = (uint64_t)i << 48 | (m->first + row);
            uint64_t hash = hashed(14695981039346656037U, (const unsigned char *)&number, sizeof number);
            const double *values = m->array[i].rows + row * m->array[i].width;
            own ^= hashed(hash, (const unsigned char *)values, m->array[i].width * sizeof *values);
        }
    MPI_Reduce(&own, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD);
    return all;
}

int malleable_end(struct malleable *m, double value)
{
    uint64_t all = digest(m);
    if (m->rank == 0 && m->iteration >= m->iterations)
        printf("%s: %ld iterations: value %.17g digest %016" PRIx64 "\n", m->name, m->iterations, value, all);
    for (int i = 0; i < m->arrays; i++)
        free(m->array[i].rows - (m->array[i].ghosts ? m->array[i].width : 0));
    MPI_Finalize();
    return 0;
}

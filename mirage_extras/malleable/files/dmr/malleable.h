/*
 * A malleable MPI program of iterations, for the applications here and as a pattern: rows of numbers are distributed over the
 * processes, and between two iterations the processes may be replaced by more or fewer. dmr_run.py starts both.
 *
 * The rows are divided into BLOCKS blocks, and a process has whole blocks. Sums are made of one partial sum for each block, in the
 * order of the blocks, so that they are the same for every number of processes, bit for bit.
 *
 * At a resize all processes write their rows into one file in memory (in the folder DMR_STATE), and the next ones read theirs.
 */
#ifndef MALLEABLE_H
#define MALLEABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { BLOCKS = 64, ARRAYS = 8, SCALARS = 8, REQUESTS = 16 };

struct malleable {
    const char *name;
    int rank, processes;
    long iteration, iterations;
    size_t rows;             /* of all processes */
    size_t first, own;       /* rows of this process */
    double scalars[SCALARS]; /* equal on all processes; kept over a resize */
    /* not for the program */
    int minimum, maximum, factor, preferred;
    int requests;
    struct {
        long iteration;
        int nodes;
    } request[REQUESTS];
    bool asynchronous, resumed, fresh;
    int arrays;
    struct {
        double *rows;
        size_t width;
        bool ghosts;
    } array[ARRAYS];
};

/*
 * Starts MPI and reads the options, for which see the usage in malleable.c. Wrong ones end the program (2). --request
 * ITERATION:NODES, up to REQUESTS times, with ascending iterations: from this iteration on the program asks for this number of
 * nodes and no other.
 */
void malleable_start(struct malleable *m, const char *name, int argc, char **argv);

/*
 * This process's part of an array of m->rows rows of `width` numbers: zero, or as it was before the resize. ghosts: room for a row
 * before and after the part, see malleable_ghosts(). All processes make the same arrays in the same order, before the first
 * iteration.
 */
double *malleable_array(struct malleable *m, size_t width, bool ghosts);

/* Memory for `count` numbers, zero, which is not kept over a resize. */
double *malleable_memory(const struct malleable *m, size_t count);

/* Whether the arrays and scalars are those of processes before a resize. */
bool malleable_resumed(const struct malleable *m);

/* Fills the ghost rows with the neighbours' rows; at both ends of the array they stay zero. */
void malleable_ghosts(struct malleable *m, double *array, size_t width);

/* The sum of products of two arrays (without ghost rows or with, of the same width). */
double malleable_dot(const struct malleable *m, const double *a, const double *b, size_t width);

/*
 * Before each iteration: true: do iteration m->iteration. false: all iterations are done, or other processes go on: call
 * malleable_end(). Asks the broker before all but the first iteration of these processes, so that a resize is never followed by
 * another without progress.
 */
bool malleable_continues(struct malleable *m);

/* Prints the result, where all iterations are done: the number `value` and a digest of all arrays. Returns the exit code. */
int malleable_end(struct malleable *m, double value);

#endif

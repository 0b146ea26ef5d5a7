/* Fillers: work that is saved, stopped at any time, and goes on from its last save. */
#ifndef FILLER_H
#define FILLER_H

#include <stdint.h>

#include "waits.h"

enum { EXIT_REQUEUE = 99 };

/* The properties of a filler. Times are in virtual ns. */
struct filler {
    const char *state;     /* path of the file of its save */
    const char *node;      /* where it runs, or NULL */
    int64_t work;          /* as a bare process */
    int64_t save, restore; /* what a save and a start cost */
    int64_t interval;      /* between two periodic saves; 0: none */
    int64_t slot;          /* length of a slot; 0: it does not leave its node at ends of slots */
    int64_t speed;         /* work per time, billionths */
};

/* The file to which it writes, and the option that named it. */
struct log {
    int file;
    const char *option, *path;
};

/*
 * Checks and reads the filler's state, which `option` names, and repeats the record of its last save. Errors are wrong use. The
 * number of the job, its number in Slurm and its start are those of `record`.
 */
void describe_filler(const char *option, const struct filler *filler, struct log log);

/* Plays the filler until its work is done, a slot ends, it has saved on request, or a signal ends it. Returns the exit code. */
int play_filler(struct watch *watch);

#endif

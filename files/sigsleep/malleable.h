/* Malleable jobs: work that advances with the speed-up of the present size, and points at which the size may change. */
#ifndef MALLEABLE_H
#define MALLEABLE_H

#include <stdint.h>

#include "waits.h"

/*
 * Checks and stores the description of a malleable job: its words, the socket of its broker, and its number of nodes as submitted
 * and at the start (0: as submitted). `options`: the names of the options with the first three, for messages. Errors are wrong use.
 */
void describe_malleable(const char *const options[3], const char *words, const char *socket, int64_t submitted, int64_t at_start);

/*
 * Plays the job until `wanted` ns of work at its submitted size are done, or a signal ends it. Returns that signal, or 0. Sets
 * *executed in ns: the time in which its work advanced. All lengths are of an instant's progress.
 */
int play_malleable(struct watch *watch, int64_t wanted, int64_t *executed);

#endif

/* The state of a filler: the file of its last save. README.md describes the layout. */
#ifndef STATE_H
#define STATE_H

#include <stdint.h>

/* What a save keeps. */
struct saved {
    uint32_t starts, saves;
    int64_t progress; /* work done, ns */
};

/*
 * Reads the file that `option` names. Without one, all is 0. A state that is torn, newer than this program, or of a filler with
 * another number or amount of work (ns) is wrong use.
 */
void read_state(const char *option, const char *path, int64_t id, int64_t work, struct saved *saved);

/*
 * Writes PATH.new and moves it to PATH, so that PATH is a complete state at any instant, the one before or this one. Returns 0 or
 * -errno.
 */
long write_state(const char *path, int64_t id, int64_t work, const struct saved *saved);

#endif

/*
 * --rows bodies that attract each other: every process has the places of all bodies, and computes the forces on its own. A step of
 * leapfrog each iteration; masses are 1/rows, the force is softened. The value of the result is twice the kinetic energy.
 */
#include "malleable.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>

enum { SPACE = 3 };

/* Numbers from -1 to 1, the same for each body on every process. */
static double number(size_t index)
{
    unsigned long long state = (index + 1) * 0x9E3779B97F4A7C15ULL;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    return (double)((state ^ (state >> 31)) >> 11) / (double)(1ULL << 52) - 1;
}

static void accelerate(const struct malleable *m, const double *all, const double *place, double *acceleration)
{
    const double softening = 1e-4;
    for (size_t body = 0; body < m->own; body++) {
        double force[SPACE] = {0};
        for (size_t other = 0; other < m->rows; other++) {
            double apart[SPACE], square = softening;
            for (int k = 0; k < SPACE; k++) {
                apart[k] = all[other * SPACE + k] - place[body * SPACE + k];
                square += apart[k] * apart[k];
            }
            double pull = 1 / (square * sqrt(square) * (double)m->rows);
            for (int k = 0; k < SPACE; k++)
                force[k] += pull * apart[k];
        }
        for (int k = 0; k < SPACE; k++)
            acceleration[body * SPACE + k] = force[k];
    }
}

int main(int argc, char **argv)
{
    const double step = 1e-3;
    struct malleable m;
    malleable_start(&m, "nbody", argc, argv);
    double *place = malleable_array(&m, SPACE, false);
    double *speed = malleable_array(&m, SPACE, false);
    size_t count = m.own * SPACE;
    if (!malleable_resumed(&m))
        for (size_t i = 0; i < count; i++)
            place[i] = number(m.first * SPACE + i);
    double *all = malleable_memory(&m, m.rows * SPACE), *acceleration = malleable_memory(&m, count);
    int counts[BLOCKS], begin[BLOCKS];
    int mine[2] = {(int)count, (int)(m.first * SPACE)};
    MPI_Allgather(&mine[0], 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allgather(&mine[1], 1, MPI_INT, begin, 1, MPI_INT, MPI_COMM_WORLD);
    while (malleable_continues(&m)) {
        MPI_Allgatherv(place, (int)count, MPI_DOUBLE, all, counts, begin, MPI_DOUBLE, MPI_COMM_WORLD);
        accelerate(&m, all, place, acceleration);
        for (size_t i = 0; i < count; i++) {
            speed[i] += step * acceleration[i];
            place[i] += step * speed[i];
        }
    }
    double value = malleable_dot(&m, speed, speed, SPACE);
    free(all);
    free(acceleration);
    return malleable_end(&m, value);
}

/*
 * An assembler for BPF programs (bpf(2)). There is one program at a time: `begin_program` starts it, the other functions append one
 * instruction each, unless they say otherwise.
 */
#ifndef BPF_ASSEMBLER_H
#define BPF_ASSEMBLER_H

#include <linux/bpf.h>
#include <stdint.h>

#ifndef BPF_ATOMIC /* headers before Linux 5.12 */
#define BPF_ATOMIC 0xc0
#define BPF_FETCH 0x01
#define BPF_XCHG (0xe0 | BPF_FETCH)
#endif

/* Registers: the result of a call, its arguments, those that calls keep, and the end of the stack, which grows downward. */
enum { R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FRAME };

/* A place in the program, to which any number of instructions before it jump. Starts as {0}. */
struct label {
    int last_jump; /* its index + 1; 0: there is none */
};

void begin_program(void);

/* Returns the program; *count is its number of instructions. */
const struct bpf_insn *finished_program(uint32_t *count);

/* to = value */
void set(uint8_t to, int32_t value);

/* to = from; of the 32 lower bits only */
void copy(uint8_t to, uint8_t from);
void copy_lower_half(uint8_t to, uint8_t from);

/* to = to OPERATION value, as BPF_ADD; to = to OPERATION from */
void compute(uint8_t operation, uint8_t to, int32_t value);
void compute_with(uint8_t operation, uint8_t to, uint8_t from);

/* to = *(from + offset), *(to + offset) = from; size: BPF_B, BPF_H, BPF_W or BPF_DW */
void load(uint8_t size, uint8_t to, uint8_t from, int offset);
void store(uint8_t size, uint8_t to, int offset, uint8_t from);

/* Does an operation on the 64 bits at to + offset in one step, as BPF_XCHG; from = what was there before. */
void atomic(uint8_t to, int offset, uint8_t from, int32_t operation);

/* to = the map with this descriptor, as an argument of the kernel's functions; to = the address of its element (two instructions).
 */
void load_map(uint8_t to, int map);
void load_element(uint8_t to, int map);

/* R0 = a function of the kernel, as BPF_FUNC_ktime_get_ns; changes R1 to R5. */
void call(int32_t function);

void jump(struct label *to);

/* Jumps if the condition is true, as BPF_JEQ; left and right are compared as 64 bits without a sign. */
void jump_if(struct label *to, uint8_t condition, uint8_t left, int32_t right);
void jump_if_registers(struct label *to, uint8_t condition, uint8_t left, uint8_t right);

/* Sets the label here; appends nothing. */
void land(const struct label *label);

/* Ends the program (two instructions). */
void leave(void);

#endif

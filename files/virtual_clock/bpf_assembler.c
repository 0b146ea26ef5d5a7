/* The assembler that bpf_assembler.h describes. */
#include "bpf_assembler.h"

enum { MOST_INSTRUCTIONS = 512 };

static struct bpf_insn program[MOST_INSTRUCTIONS];
static int length;

static void emit(int code, uint8_t to, uint8_t from, int offset, int32_t value)
{
    program[length++] =
        (struct bpf_insn){.code = (uint8_t)code, .dst_reg = to, .src_reg = from, .off = (int16_t)offset, .imm = value};
}

void begin_program(void)
{
    length = 0;
}

const struct bpf_insn *finished_program(uint32_t *count)
{
    *count = (uint32_t)length;
    return program;
}

void set(uint8_t to, int32_t value)
{
    emit(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}

void copy(uint8_t to, uint8_t from)
{
    emit(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}

void copy_lower_half(uint8_t to, uint8_t from)
{
    emit(BPF_ALU | BPF_MOV | BPF_X, to, from, 0, 0);
}

void compute(uint8_t operation, uint8_t to, int32_t value)
{
    emit(BPF_ALU64 | operation | BPF_K, to, 0, 0, value);
}

void compute_with(uint8_t operation, uint8_t to, uint8_t from)
{
    emit(BPF_ALU64 | operation | BPF_X, to, from, 0, 0);
}

void load(uint8_t size, uint8_t to, uint8_t from, int offset)
{
    emit(BPF_LDX | BPF_MEM | size, to, from, offset, 0);
}

void store(uint8_t size, uint8_t to, int offset, uint8_t from)
{
    emit(BPF_STX | BPF_MEM | size, to, from, offset, 0);
}

void atomic(uint8_t to, int offset, uint8_t from, int32_t operation)
{
    emit(BPF_STX | BPF_ATOMIC | BPF_DW, to, from, offset, operation);
}

/* A constant of 64 bits takes two instructions. */
static void load_constant(uint8_t to, uint8_t kind, int32_t value)
{
    emit(BPF_LD | BPF_DW | BPF_IMM, to, kind, 0, value);
    emit(0, 0, 0, 0, 0);
}

void load_map(uint8_t to, int map)
{
    load_constant(to, BPF_PSEUDO_MAP_FD, map);
}

void load_element(uint8_t to, int map)
{
    load_constant(to, BPF_PSEUDO_MAP_VALUE, map);
}

void call(int32_t function)
{
    emit(BPF_JMP | BPF_CALL, 0, 0, 0, function);
}

/* Until the label is set, the offset of a jump is the index + 1 of the jump before it to the same label. */
static void emit_jump(struct label *to, int code, uint8_t left, uint8_t right, int32_t value)
{
    emit(code, left, right, to->last_jump, value);
    to->last_jump = length;
}

void jump(struct label *to)
{
    emit_jump(to, BPF_JMP | BPF_JA, 0, 0, 0);
}

void jump_if(struct label *to, uint8_t condition, uint8_t left, int32_t right)
{
    emit_jump(to, BPF_JMP | condition | BPF_K, left, 0, right);
}

void jump_if_registers(struct label *to, uint8_t condition, uint8_t left, uint8_t right)
{
    emit_jump(to, BPF_JMP | condition | BPF_X, left, right, 0);
}

void land(const struct label *label)
{
    for (int number = label->last_jump; number > 0;) {
        struct bpf_insn *from = &program[number - 1];
        int before = from->off;
        from->off = (int16_t)(length - number);
        number = before;
    }
}

void leave(void)
{
    set(R0, 0);
    emit(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

// The threads of a block, as coroutines in one host thread. A coroutine runs the threads of a warp one after the other
// until one of them waits. A kernel without barriers therefore runs as a loop over its threads.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

struct dim3 {
    unsigned x, y, z;
};
dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {
// Saves where a coroutine continues, and continues where `load` was saved. The compiler saves all registers that it
// uses except rbx and rbp. A call would cost more: the processor predicts that a function returns to its caller, which
// is wrong after a switch. The red zone below the stack pointer is kept.
inline void switch_to(void **save, void *load) {
    asm volatile(R"(
        leaq -128(%%rsp), %%rsp
        pushq %%rbp
        pushq %%rbx
        leaq 1f(%%rip), %%rax
        pushq %%rax
        movq %%rsp, (%%rdi)
        movq %%rsi, %%rsp
        popq %%rax
        jmp *%%rax
    1:  popq %%rbx
        popq %%rbp
        leaq 128(%%rsp), %%rsp
    )"
                 : "+D"(save), "+S"(load)
                 :
                 : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
                   "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                   "xmm15", "cc", "memory");
}

constexpr int MOST = 1024, WARP = 32;
// The size is not a multiple of 4 KB, because stack tops at such distances would map to the same few cache lines.
constexpr size_t STACK = 64 * 1024 + 9 * 64;

// A barrier: the last thread to arrive releases all others.
struct Barrier {
    int alive, waiting;
    unsigned passed;

    void release() {
        if (waiting == 0 || waiting < alive) return;
        waiting = 0;
        ++passed;
    }
};

struct Thread {
    void *sp;
    // The barrier that the thread waits for, and how often threads had passed it at arrival. NULL if the thread has
    // ended.
    const Barrier *barrier;
    unsigned passed;
    dim3 index;

    bool may_run() const { return barrier && barrier->passed != passed; }
};

struct Body {
    void (*call)(const void *function, const void *arguments);
    const void *function, *arguments;
} body;

Thread threads[MOST];
char *stacks;
void *scheduler;
int current, begun, end_of_warp;
dim3 next;
Barrier block, warps[MOST / WARP];
// For each warp, the number of passed barriers when the warp last ran. While this number is unchanged, no thread of the
// warp can continue.
unsigned seen[MOST / WARP];

// Starts the first thread that has not begun.
void begin() {
    current = begun++;
    threadIdx = threads[current].index = next;
    if (++next.x == blockDim.x) next = {0, next.y + 1, 0};
}

void take_threads();

// Creates a stack with the address where `switch_to` continues, and a return address of `take_threads`.
void *fresh_stack(int t) {
    void **top = reinterpret_cast<void **>(stacks + STACK * (t + 1)) - 2;
    *--top = nullptr;  // keeps the stack aligned as after a call
    *--top = reinterpret_cast<void *>(take_threads);
    return top;
}

// Selects the next thread after `current` of the same warp that can run. Returns its stack, or that of the scheduler if
// there is none.
void *next_of_warp() {
    for (int t = current + 1; t < end_of_warp; ++t) {
        if (t == begun) {
            begin();
            return fresh_stack(t);
        }
        if (threads[t].may_run()) {
            current = t;
            threadIdx = threads[t].index;
            return threads[t].sp;
        }
    }
    return scheduler;
}

// Not inline: the switches at one place are predicted well.
__attribute__((noinline)) void wait_at(Barrier &barrier) {
    Thread &me = threads[current];
    me.barrier = &barrier;
    me.passed = barrier.passed;
    ++barrier.waiting;
    barrier.release();
    if (!me.may_run()) switch_to(&me.sp, next_of_warp());
}

void end_of_thread() {
    Barrier &warp = warps[current / WARP];
    threads[current].barrier = nullptr;
    --block.alive;
    --warp.alive;
    warp.release();
    block.release();
}

// Body of a coroutine. It begins with one thread and may end with another thread.
void take_threads() {
    for (;;) {
        body.call(body.function, body.arguments);
        end_of_thread();
        if (begun >= end_of_warp) break;
        begin();
    }
    void *nowhere;
    switch_to(&nowhere, next_of_warp());
}

// Lets each thread of a warp that can continue run to its next barrier: a thread that waits switches to the next one.
// Returns whether a thread ran. This is done only once per call, because a warp that polls for another warp would never
// end.
bool run_warp(int first, int end) {
    const unsigned passed = block.passed + warps[first / WARP].passed;
    if (begun > first && passed == seen[first / WARP]) return false;
    seen[first / WARP] = passed;
    current = first - 1;
    end_of_warp = end;
    scheduler = nullptr;
    void *sp = next_of_warp();
    if (sp) switch_to(&scheduler, sp);
    return sp != nullptr;
}

// The stacks are on large pages: a block touches one page of each stack, more than the processor can translate quickly.
char *allocate_stacks() {
    constexpr size_t PAGE = size_t(2) << 20, BYTES = (STACK * MOST + PAGE - 1) / PAGE * PAGE;
    void *bytes = std::aligned_alloc(PAGE, BYTES);
    madvise(bytes, BYTES, MADV_HUGEPAGE);
    return static_cast<char *>(bytes);
}

void run_block() {
    const int count = blockDim.x * blockDim.y;
    if (!stacks) stacks = allocate_stacks();
    block = {count, 0, 0};
    for (int first = 0; first < count; first += WARP) warps[first / WARP] = {std::min(WARP, count - first), 0, 0};
    begun = 0;
    next = {0, 0, 0};
    while (block.alive > 0) {
        bool any = false;
        for (int first = 0; first < count; first += WARP) any |= run_warp(first, std::min(count, first + WARP));
        if (!any) {
            std::fprintf(stderr, "emulator: threads of a block wait for one another\n");
            std::abort();
        }
    }
}

// Values that threads of a warp exchange, in two alternating buffers. One barrier per exchange suffices: all threads
// have read a buffer before any thread passes the next barrier and overwrites it.
struct Exchange {
    double lanes[WARP];
    unsigned votes;
} exchanges[MOST / WARP][2];

int lane() { return current % WARP; }

template <class T> T shuffle(T v, int from) {
    const int w = current / WARP;
    Exchange &exchange = exchanges[w][warps[w].passed % 2];
    std::memcpy(&exchange.lanes[lane()], &v, sizeof(T));
    wait_at(warps[w]);
    std::memcpy(&v, &exchange.lanes[from], sizeof(T));
    return v;
}

// Returns one bit per thread of the warp.
unsigned ballot(bool v) {
    const int w = current / WARP;
    Exchange &exchange = exchanges[w][warps[w].passed % 2];
    if (warps[w].waiting == 0) exchange.votes = 0;
    exchange.votes |= unsigned(v) << lane();
    wait_at(warps[w]);
    return exchange.votes;
}
}  // namespace emulator

inline void __syncthreads() { emulator::wait_at(emulator::block); }
inline void __syncwarp() { emulator::wait_at(emulator::warps[emulator::current / emulator::WARP]); }

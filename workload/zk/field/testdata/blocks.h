// Runs kernels of CUDA C on the host, for tests: the threads of a block in turn, each until the
// next __syncthreads. It comes before a kernel's source, which then compiles as C++.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define INLINE static inline
#define KERNEL(threads, blocks) extern "C" void
#define __shared__ static
#define __syncthreads() threads_wait()
#define THREAD thread_now
#define THREADS thread_count
#define BLOCK_X block_x
#define BLOCK_Y block_y

typedef unsigned int u32;
typedef unsigned long long u64;

static u32 thread_now, thread_count, block_x, block_y;

enum { MaxThreads = 1024, StackBytes = 1 << 16 };
static ucontext_t thread_context[MaxThreads], caller;
static bool thread_done[MaxThreads];
static void (*thread_body)();

static void threads_wait() { swapcontext(&thread_context[thread_now], &caller); }

static void thread_run() {
	thread_body();
	thread_done[thread_now] = true;
}

// run_blocks calls body once for each thread of a grid. All threads of a block wait for one
// another, or none does.
static void run_blocks(u32 x, u32 y, u32 threads, void (*body)()) {
	static char stacks[MaxThreads][StackBytes];
	thread_body = body;
	thread_count = threads;
	for (block_y = 0; block_y < y; block_y++)
		for (block_x = 0; block_x < x; block_x++) {
			for (u32 t = 0; t < threads; t++) {
				thread_done[t] = false;
				getcontext(&thread_context[t]);
				thread_context[t].uc_stack.ss_sp = stacks[t];
				thread_context[t].uc_stack.ss_size = StackBytes;
				thread_context[t].uc_link = &caller;
				makecontext(&thread_context[t], thread_run, 0);
			}
			for (bool left = true; left;) {
				left = false;
				for (thread_now = 0; thread_now < threads; thread_now++)
					if (!thread_done[thread_now]) {
						swapcontext(&caller, &thread_context[thread_now]);
						left |= !thread_done[thread_now];
					}
			}
		}
}

// read_all reads so many bytes, which are at most those there is memory for.
static void *read_all(size_t bytes) {
	void *to = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
	if (!to || fread(to, 1, bytes, stdin) != bytes)
		exit(1);
	return to;
}

// The peer of task.Go in C++, with oneTBB (Debian's g++ and libtbb-dev): fib(30) with a task
// for one of the two calls, and a million tasks that do nothing. It prints lines that
// benchstat and bench/tasks.sh read. bench/tasks.sh builds and runs it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tbb/global_control.h>
#include <tbb/task_group.h>

static int fib(int n) {
	if (n < 2) {
		return n;
	}
	int a, b;
	tbb::task_group g;
	g.run([&a, n] { a = fib(n - 1); });
	b = fib(n - 2);
	g.wait();
	return a + b;
}

template <class F> static double nanoseconds(F f) {
	auto began = std::chrono::steady_clock::now();
	f();
	return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - began).count();
}

int main(int argc, char **argv) {
	int threads = argc > 1 ? std::atoi(argv[1]) : 2, runs = argc > 2 ? std::atoi(argv[2]) : 1;
	tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
	for (int i = 0; i < runs; i++) {
		int got = 0;
		double took = nanoseconds([&got] { got = fib(30); });
		if (got != 832040) {
			std::fprintf(stderr, "fib(30) is %d\n", got);
			return 1;
		}
		std::printf("BenchmarkTasksFib/tbb 1 %.0f ns/op\n", took);
		const int n = 1000000;
		took = nanoseconds([] {
			tbb::task_group g;
			for (int k = 0; k < n; k++) {
				g.run([] {});
			}
			g.wait();
		});
		std::printf("BenchmarkTasksIndependent/tbb %d %.1f ns/op\n", n, took / n);
	}
}

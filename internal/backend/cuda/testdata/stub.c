// A stand-in for NVIDIA's libraries on machines without a GPU: libcuda, NVML,
// cuBLAS, cuDNN, NCCL and NVRTC in one file, so far as weft calls them. It checks
// what it is given (contexts, handles, sizes, structure layouts) and computes
// for real on host memory; streams are threads, so that order matters. It is no
// model of a GPU's speed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int result;

enum { OK = 0, INVALID = 1, NOMEM = 2, NOTINIT = 3, NODEVICE = 101, BADCONTEXT = 201, BADPTX = 218, BADHANDLE = 400,
       NOTFOUND = 500, NOTREADY = 600, ILLEGAL = 700, REGISTERED = 712, NOTREGISTERED = 713, UPDATEFAILED = 910 };

#define DEVICES 3
#define UNIT (2ull << 20)
#define TOTAL (512ull << 20)

static pthread_mutex_t big = PTHREAD_MUTEX_INITIALIZER;
static int up, poison; // initialised; the error every call answers with
static __thread void *current;
static __thread void *pushed[8];
static __thread int depth;

static u64 now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// How often kernels were launched, by themselves, by a graph or to be recorded:
// where WEFT_STUB_CALLS names a file of three words, for all processes together.
static u64 *calls = (u64[3]){0};
__attribute__((constructor)) static void count_calls(void) {
	const char *name = getenv("WEFT_STUB_CALLS");
	int fd = name ? open(name, O_RDWR) : -1;
	if (fd < 0) return;
	void *p = mmap(0, 24, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED) calls = p;
}
static void called(int what) { __atomic_add_fetch(&calls[what], 1, __ATOMIC_RELAXED); }

#define READY() do { if (!up) return NOTINIT; if (poison) return poison; } while (0)
#define INCONTEXT() do { READY(); if (!current) return BADCONTEXT; } while (0)

// Devices and contexts.

struct context { u32 magic; int device, refs; } contexts[DEVICES];
static u64 used[DEVICES];

result cuGetErrorName(int code, const char **out) {
	switch (code) {
	case INVALID: *out = "CUDA_ERROR_INVALID_VALUE"; return OK;
	case NOMEM: *out = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
	case ILLEGAL: *out = "CUDA_ERROR_ILLEGAL_ADDRESS"; return OK;
	case BADPTX: *out = "CUDA_ERROR_INVALID_PTX"; return OK;
	case NOTFOUND: *out = "CUDA_ERROR_NOT_FOUND"; return OK;
	}
	*out = "CUDA_ERROR_OF_THE_STUB";
	return OK;
}
result cuGetErrorString(int code, const char **out) { *out = code == ILLEGAL ? "an illegal memory access was encountered" : "the stub says so"; return OK; }
result cuInit(u32 flags) { if (flags) return INVALID; up = 1; return OK; }
result cuDriverGetVersion(int *v) { *v = 13000; return OK; }
result cuDeviceGetCount(int *n) { READY(); *n = DEVICES; return OK; }
result cuDeviceGet(int *d, int i) { READY(); if (i < 0 || i >= DEVICES) return NODEVICE; *d = i; return OK; }
result cuDeviceGetName(char *s, int n, int d) { READY(); snprintf(s, n, "Stub GPU %d", d); return OK; }
result cuDeviceGetUuid_v2(unsigned char *u, int d) { READY(); for (int i = 0; i < 16; i++) u[i] = 16 * d + i; return OK; }
result cuDeviceGetPCIBusId(char *s, int n, int d) { READY(); snprintf(s, n, "0000:0%d:00.0", d + 1); return OK; }
result cuDeviceGetAttribute(int *v, int a, int d) {
	READY();
	if (d < 0 || d >= DEVICES) return NODEVICE;
	switch (a) {
	case 16: *v = 4; return OK;
	case 18: *v = 0; return OK;
	case 36: *v = 3201000; return OK;
	case 37: *v = 6144; return OK;
	case 75: *v = 9; return OK;
	case 76: *v = 0; return OK;
	case 91: *v = 1; return OK;
	}
	return INVALID;
}
result cuDevicePrimaryCtxRetain(void **c, int d) {
	READY();
	pthread_mutex_lock(&big);
	contexts[d].magic = 0xc0c0, contexts[d].device = d, contexts[d].refs++;
	pthread_mutex_unlock(&big);
	*c = &contexts[d];
	return OK;
}
result cuDevicePrimaryCtxRelease_v2(int d) {
	READY();
	pthread_mutex_lock(&big);
	int ok = contexts[d].refs-- > 0;
	pthread_mutex_unlock(&big);
	return ok ? OK : BADCONTEXT;
}
static int is_context(void *c) { return c && ((struct context *)c)->magic == 0xc0c0; }
result cuCtxSetCurrent(void *c) { READY(); if (c && !is_context(c)) return BADCONTEXT; current = c; return OK; }
result cuCtxPushCurrent_v2(void *c) { READY(); if (!is_context(c) || depth == 8) return BADCONTEXT; pushed[depth++] = current; current = c; return OK; }
result cuCtxPopCurrent_v2(void **c) { if (!depth) return BADCONTEXT; *c = current; current = pushed[--depth]; READY(); return OK; }
static int device(void) { return ((struct context *)current)->device; }

// Memory: physical handles are memfds, addresses are mappings of them.

struct handle { u32 magic; int fd, device, mapped, refs; u64 size; int counted; };
struct range { char *at; u64 size; struct handle *h; int access; struct range *next; };
static struct range *ranges, *reserved, *registered;

struct prop { int type, handles; int where, id; void *win; unsigned char flags[8]; };

static int bad_prop(struct prop *p) { return p->type != 1 || p->handles != 1 || p->where != 1 || p->id < 0 || p->id >= DEVICES || p->win; }

result cuMemGetInfo_v2(u64 *free, u64 *total) { INCONTEXT(); *total = TOTAL; *free = TOTAL - used[device()]; return OK; }
result cuMemGetAllocationGranularity(u64 *g, struct prop *p, int option) { READY(); if (bad_prop(p) || option != 1) return INVALID; *g = UNIT; return OK; }
result cuMemCreate(struct handle **out, u64 size, struct prop *p, u64 flags) {
	INCONTEXT();
	if (!size || size % UNIT || bad_prop(p) || flags) return INVALID;
	pthread_mutex_lock(&big);
	int full = used[p->id] + size > TOTAL;
	if (!full) used[p->id] += size;
	pthread_mutex_unlock(&big);
	if (full) return NOMEM;
	struct handle *h = calloc(1, sizeof *h);
	*h = (struct handle){0xabcd, memfd_create("stub", 0), p->id, 0, 1, size, 1};
	if (h->fd < 0 || ftruncate(h->fd, size)) return NOMEM;
	*out = h;
	return OK;
}
static void drop(struct handle *h) { // under big
	if (--h->refs) return;
	if (h->counted) used[h->device] -= h->size;
	close(h->fd);
	h->magic = 0;
	free(h);
}
result cuMemRelease(struct handle *h) {
	READY();
	if (!h || h->magic != 0xabcd) return INVALID;
	pthread_mutex_lock(&big);
	drop(h);
	pthread_mutex_unlock(&big);
	return OK;
}
result cuMemAddressReserve(char **at, u64 size, u64 align, u64 hint, u64 flags) {
	READY();
	if (!size || size % UNIT || align || hint || flags) return INVALID;
	*at = mmap(0, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*at == MAP_FAILED) return NOMEM;
	struct range *r = calloc(1, sizeof *r);
	pthread_mutex_lock(&big);
	*r = (struct range){*at, size, 0, 0, reserved};
	reserved = r;
	pthread_mutex_unlock(&big);
	return OK;
}
static result take(struct range **list, char *at, u64 size, struct range *out) { // under big
	for (; *list; list = &(*list)->next)
		if ((*list)->at == at && (!size || (*list)->size == size)) {
			struct range *r = *list;
			*out = *r;
			*list = r->next;
			free(r);
			return OK;
		}
	return INVALID;
}
result cuMemAddressFree(char *at, u64 size) {
	READY();
	struct range r;
	pthread_mutex_lock(&big);
	result e = take(&reserved, at, size, &r);
	for (struct range *m = ranges; m && !e; m = m->next)
		if (m->at >= at && m->at < at + size) e = INVALID; // still mapped
	pthread_mutex_unlock(&big);
	if (!e) munmap(at, size);
	return e;
}
result cuMemMap(char *at, u64 size, u64 offset, struct handle *h, u64 flags) {
	READY();
	if (!h || h->magic != 0xabcd || size != h->size || offset || flags) return INVALID;
	pthread_mutex_lock(&big);
	int inside = 0;
	for (struct range *r = reserved; r; r = r->next) inside |= at >= r->at && at + size <= r->at + r->size;
	for (struct range *r = ranges; r; r = r->next) inside &= at + size <= r->at || at >= r->at + r->size;
	if (inside) {
		struct range *r = calloc(1, sizeof *r);
		*r = (struct range){at, size, h, 0, ranges};
		ranges = r;
		h->refs++;
		mmap(at, size, PROT_NONE, MAP_SHARED | MAP_FIXED, h->fd, 0);
	}
	pthread_mutex_unlock(&big);
	return inside ? OK : INVALID;
}
struct access { int where, id, flags; };
// The last two have no way to each other.
result cuDeviceCanAccessPeer(int *can, int a, int b) { READY(); if (a == b) return INVALID; *can = a + b < 2 * DEVICES - 3; return OK; }
result cuMemSetAccess(char *at, u64 size, struct access *a, u64 n) {
	READY();
	int mask = 0;
	for (u64 i = 0; i < n; i++) {
		int can = 1;
		if (a[i].where != 1 || a[i].flags != 3 || a[i].id < 0 || a[i].id >= DEVICES || mask >> a[i].id & 1) return INVALID;
		if (i && (cuDeviceCanAccessPeer(&can, a[i].id, a[0].id) || !can)) return INVALID;
		mask |= 1 << a[i].id;
	}
	if (!mask) return INVALID;
	result e = INVALID;
	pthread_mutex_lock(&big);
	for (struct range *r = ranges; r; r = r->next)
		if (r->at == at && r->size == size) r->access = mask, e = mprotect(at, size, PROT_READ | PROT_WRITE) ? INVALID : OK;
	pthread_mutex_unlock(&big);
	return e;
}
result cuMemUnmap(char *at, u64 size) {
	READY();
	struct range r;
	pthread_mutex_lock(&big);
	result e = take(&ranges, at, size, &r);
	if (!e) mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0), drop(r.h);
	pthread_mutex_unlock(&big);
	return e;
}
result cuMemExportToShareableHandle(int *fd, struct handle *h, int type, u64 flags) {
	READY();
	if (!h || h->magic != 0xabcd || type != 1 || flags) return INVALID;
	*fd = dup(h->fd);
	return OK;
}
result cuMemImportFromShareableHandle(struct handle **out, void *fd, int type) {
	READY();
	struct stat s;
	if (type != 1 || fstat((int)(intptr_t)fd, &s) || s.st_size % UNIT) return INVALID;
	struct handle *h = calloc(1, sizeof *h);
	*h = (struct handle){0xabcd, dup((int)(intptr_t)fd), 0, 0, 1, s.st_size, 0};
	*out = h;
	return OK;
}
// on_gpu reports whether a kernel may touch n bytes.
static int on_gpu(const void *p, u64 n) {
	int ok = !n;
	pthread_mutex_lock(&big);
	for (struct range *r = ranges; r; r = r->next)
		if (r->access && (char *)p >= r->at && (char *)p < r->at + r->size) {
			// A heap is mapped in pieces that follow one another.
			u64 room = r->at + r->size - (char *)p;
			if (room >= n) { ok = 1; break; }
			p = (char *)p + room, n -= room, r = ranges;
			if (r->access && (char *)p >= r->at && (char *)p < r->at + r->size && (u64)(r->at + r->size - (char *)p) >= n) { ok = 1; break; }
		}
	pthread_mutex_unlock(&big);
	return ok;
}
result cuMemHostAlloc(char **p, u64 n, u32 flags) {
	INCONTEXT();
	if (flags & ~3u) return INVALID;
	*p = calloc(1, n);
	return *p ? OK : NOMEM;
}
result cuMemFreeHost(char *p) { INCONTEXT(); free(p); return OK; }
result cuMemHostGetDevicePointer_v2(char **out, char *p, u32 flags) { INCONTEXT(); if (flags) return INVALID; *out = p; return OK; }
result cuMemHostRegister_v2(char *p, u64 n, u32 flags) {
	INCONTEXT();
	if (!p || !n || flags != 1) return INVALID;
	result e = OK;
	pthread_mutex_lock(&big);
	for (struct range *r = registered; r; r = r->next)
		if (p < r->at + r->size && r->at < p + n) e = REGISTERED;
	if (!e) {
		struct range *r = calloc(1, sizeof *r);
		*r = (struct range){p, n, 0, 0, registered};
		registered = r;
	}
	pthread_mutex_unlock(&big);
	return e;
}
result cuMemHostUnregister(char *p) {
	INCONTEXT();
	struct range r;
	pthread_mutex_lock(&big);
	result e = take(&registered, p, 0, &r);
	pthread_mutex_unlock(&big);
	return e ? NOTREGISTERED : OK;
}
static int is_registered(const char *p, u64 n) {
	int ok = 0;
	pthread_mutex_lock(&big);
	for (struct range *r = registered; r; r = r->next) ok |= p >= r->at && p + n <= r->at + r->size;
	pthread_mutex_unlock(&big);
	return ok;
}

// Streams: a thread and a queue each. A job is a function and its words.

struct job { void (*run)(struct job *); u64 w[32]; u32 dims[6]; struct job *next; };
struct stream { u32 magic; pthread_t thread; pthread_mutex_t mu; pthread_cond_t cond; struct job *head, **tail; int busy, stop, capturing; struct job *graph, **graph_tail; };

static void *serve(void *arg) {
	struct stream *s = arg;
	pthread_mutex_lock(&s->mu);
	for (;;) {
		while (!s->head && !s->stop) pthread_cond_wait(&s->cond, &s->mu);
		if (!s->head) break;
		struct job *j = s->head;
		if (!(s->head = j->next)) s->tail = &s->head;
		pthread_mutex_unlock(&s->mu);
		if (!poison) j->run(j);
		free(j);
		pthread_mutex_lock(&s->mu);
		if (!poison) s->busy--; // a broken stream never moves again
		pthread_cond_broadcast(&s->cond);
	}
	pthread_mutex_unlock(&s->mu);
	return 0;
}
result cuStreamCreate(struct stream **out, u32 flags) {
	INCONTEXT();
	if (flags != 1) return INVALID;
	struct stream *s = calloc(1, sizeof *s);
	s->magic = 0x57, s->tail = &s->head;
	pthread_mutex_init(&s->mu, 0);
	pthread_cond_init(&s->cond, 0);
	pthread_create(&s->thread, 0, serve, s);
	*out = s;
	return OK;
}
result cuStreamDestroy_v2(struct stream *s) {
	INCONTEXT();
	if (!s || s->magic != 0x57) return BADHANDLE;
	pthread_mutex_lock(&s->mu);
	s->stop = 1;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->mu);
	pthread_join(s->thread, 0);
	s->magic = 0;
	free(s);
	return OK;
}
static result put(struct stream *s, struct job *j) {
	if (!s || s->magic != 0x57) return BADHANDLE;
	struct job *c = malloc(sizeof *c);
	*c = *j;
	c->next = 0;
	pthread_mutex_lock(&s->mu);
	if (s->capturing) {
		*s->graph_tail = c, s->graph_tail = &c->next;
	} else {
		*s->tail = c, s->tail = &c->next;
		s->busy++;
		pthread_cond_broadcast(&s->cond);
	}
	pthread_mutex_unlock(&s->mu);
	return OK;
}
result cuStreamQuery(struct stream *s) {
	INCONTEXT();
	if (!s || s->magic != 0x57) return BADHANDLE;
	pthread_mutex_lock(&s->mu);
	int busy = s->busy;
	pthread_mutex_unlock(&s->mu);
	return poison ? poison : busy ? NOTREADY : OK;
}
result cuStreamSynchronize(struct stream *s) {
	INCONTEXT();
	pthread_mutex_lock(&s->mu);
	while (s->busy && !poison) pthread_cond_wait(&s->cond, &s->mu);
	pthread_mutex_unlock(&s->mu);
	return poison;
}
static void run_write(struct job *j) { __atomic_store_n((u32 *)j->w[0], (u32)j->w[1], __ATOMIC_SEQ_CST); }
static void run_wait(struct job *j) {
	while ((int32_t)(__atomic_load_n((u32 *)j->w[0], __ATOMIC_SEQ_CST) - (u32)j->w[1]) < 0 && !poison) usleep(20);
}
result cuStreamWriteValue32_v2(struct stream *s, u32 *addr, u32 v, u32 flags) {
	INCONTEXT();
	if (flags || (u64)addr % 4) return INVALID;
	return put(s, &(struct job){run_write, {(u64)addr, v}});
}
result cuStreamWaitValue32_v2(struct stream *s, u32 *addr, u32 v, u32 flags) {
	INCONTEXT();
	if (flags || (u64)addr % 4) return INVALID;
	return put(s, &(struct job){run_wait, {(u64)addr, v}});
}
struct event { u32 magic; u64 at; };
static void run_event(struct job *j) { ((struct event *)j->w[0])->at = now_ns(); }
result cuEventCreate(struct event **e, u32 flags) { INCONTEXT(); if (flags) return INVALID; *e = calloc(1, sizeof **e); (*e)->magic = 0xe7; return OK; }
result cuEventDestroy_v2(struct event *e) { INCONTEXT(); if (e->magic != 0xe7) return BADHANDLE; free(e); return OK; }
result cuEventRecord(struct event *e, struct stream *s) { INCONTEXT(); if (e->magic != 0xe7) return BADHANDLE; return put(s, &(struct job){run_event, {(u64)e}}); }
result cuEventElapsedTime_v2(float *ms, struct event *a, struct event *b) {
	INCONTEXT();
	if (!a->at || !b->at) return NOTREADY;
	*ms = (b->at - a->at) / 1e6f;
	return OK;
}

// Copies. Plain memory is copied before the call returns, as by a real driver.

static void run_copy(struct job *j) { memcpy((void *)j->w[0], (void *)j->w[1], j->w[2]); }
static result copy(struct stream *s, void *dst, const void *src, u64 n, const void *host) {
	// No copy begins in page-locked memory and ends beyond it.
	if (host && n && is_registered(host, 1) && !is_registered(host, n)) return INVALID;
	result e = put(s, &(struct job){run_copy, {(u64)dst, (u64)src, n}});
	if (!e && host && !is_registered(host, n)) return cuStreamSynchronize(s);
	return e;
}
result cuMemcpyHtoDAsync_v2(char *d, const char *h, u64 n, struct stream *s) { INCONTEXT(); if (!h || !on_gpu(d, n)) return INVALID; return copy(s, d, h, n, h); }
result cuMemcpyDtoHAsync_v2(char *h, const char *d, u64 n, struct stream *s) { INCONTEXT(); if (!h || !on_gpu(d, n)) return INVALID; return copy(s, h, d, n, h); }
result cuMemcpyDtoDAsync_v2(char *d, const char *from, u64 n, struct stream *s) { INCONTEXT(); if (!on_gpu(from, n) || !on_gpu(d, n)) return INVALID; return copy(s, d, from, n, 0); }
static void run_fill(struct job *j) { usleep(2000); memset((void *)j->w[0], (int)j->w[1], j->w[2]); } // so late that who does not wait is found out
result cuMemsetD8Async(char *d, unsigned char v, u64 n, struct stream *s) { INCONTEXT(); if (!on_gpu(d, n)) return INVALID; return put(s, &(struct job){run_fill, {(u64)d, v, n}}); }
result cuMemcpyPeerAsync(char *d, void *dc, const char *from, void *sc, u64 n, struct stream *s) {
	INCONTEXT();
	if (dc != current || !is_context(sc) || sc == dc || !on_gpu(from, n) || !on_gpu(d, n)) return INVALID;
	int can = 0;
	cuDeviceCanAccessPeer(&can, device(), ((struct context *)sc)->device);
	pthread_mutex_lock(&big);
	for (struct range *r = ranges; r && can; r = r->next) // who could reach the other's memory was let
		if (from >= r->at && from < r->at + r->size) can = r->access >> device() & 1 ? 0 : 1;
	pthread_mutex_unlock(&big);
	if (can) return INVALID;
	return copy(s, d, from, n, 0);
}
result cuMemAllocAsync(char **p, u64 n, struct stream *s) { INCONTEXT(); if (!s || !n) return INVALID; *p = malloc(n); return *p ? OK : NOMEM; }
static void run_free(struct job *j) { free((void *)j->w[0]); }
result cuMemFreeAsync(char *p, struct stream *s) { INCONTEXT(); return put(s, &(struct job){run_free, {(u64)p}}); }

// Kernels: those of kernels.cu. Words 0 on are the parameters, dims the shape.

static u64 items(struct job *j) { return (u64)j->dims[0] * j->dims[1] * j->dims[2] * j->dims[3] * j->dims[4] * j->dims[5]; }
static int illegal(const void *p, u64 n) { if (on_gpu(p, n)) return 0; poison = ILLEGAL; return 1; }
static void add(struct job *j, u32 by) {
	u32 *x = (u32 *)j->w[0], n = (u32)j->w[1];
	if (illegal(x, 4ull * n)) return;
	for (u64 i = 0; i < n && i < items(j); i++) x[i] += by;
}
static void k_empty(struct job *j) { (void)j; }
static void k_add_one(struct job *j) { add(j, 1); }
static void k_add_two(struct job *j) { add(j, 2); }
static void k_saxpy(struct job *j) {
	const float *x = (float *)j->w[0];
	float *y = (float *)j->w[1], a;
	u32 n = (u32)j->w[2];
	memcpy(&a, (char *)&j->w[2] + 4, 4);
	if (illegal(x, 4ull * n) || illegal(y, 4ull * n)) return;
	for (u64 i = 0; i < n && i < items(j); i++) {
		volatile float t = a * x[i];
		y[i] = t + y[i];
	}
}
static void k_through(struct job *j) {
	u32 *x = (u32 *)j->w[0], *y = (u32 *)j->w[1], *s = (u32 *)j->w[2], n = (u32)j->w[3];
	if (illegal(x, 4ull * n) || illegal(y, 4ull * n) || illegal(s, 4ull * n)) return;
	for (u64 i = 0; i < n && i < items(j); i++) s[i] = ~x[i], y[i] = ~s[i];
}
static void spin(struct job *j, u64 ns) {
	u64 begin = now_ns();
	while (now_ns() - begin < ns) ;
	if (!illegal((void *)j->w[0], 4)) __atomic_add_fetch((u32 *)j->w[0], 1, __ATOMIC_SEQ_CST);
}
static void k_spin(struct job *j) { spin(j, j->w[1]); }
static void k_spin_long(struct job *j) { spin(j, 4 * j->w[1]); }
static void k_crash(struct job *j) { illegal((char *)(j->w[0] ^ 0x100000000000ull), 4); }
static void k_meet(struct job *j) {
	u32 *x = (u32 *)j->w[0];
	if (illegal(x, 4 * (j->dims[0] + 1))) return;
	x[0] += j->dims[0];
	// Alone, a block would wait for ever for the others.
	for (u32 i = 0; i < j->dims[0]; i++) x[1 + i] = j->w[31] & 1 ? x[0] : 0;
}
static void k_large(struct job *j) {
	u32 *x = (u32 *)j->w[0], n = (u32)j->w[1];
	if (illegal(x, 4ull * n)) return;
	for (u32 i = 0; i < n / 2; i++) { u32 t = x[i]; x[i] = x[n - 1 - i]; x[n - 1 - i] = t; }
}
static void k_cluster(struct job *j) {
	u32 *x = (u32 *)j->w[0];
	if (illegal(x, 4 * j->dims[0])) return;
	for (u32 i = 0; i < j->dims[0]; i++) x[i] = j->w[30];
}
static void k_threads(struct job *j) { if (!illegal((void *)j->w[0], 8)) ((u32 *)j->w[0])[0] = j->dims[3], ((u32 *)j->w[0])[1] = j->dims[0]; }
static void k_add(struct job *j) { add(j, j->w[1] >> 32); }
static void k_spread(struct job *j) {
	u32 *in = (u32 *)j->w[0], *work = (u32 *)j->w[2], n = (u32)j->w[3];
	if (illegal(in, 4ull * n) || illegal(work, 4ull * n)) return;
	for (u64 i = 0; i < n && i < items(j); i++) work[i] = 2 * in[i];
}
static void k_gather(struct job *j) {
	u32 *out = (u32 *)j->w[1], *work = (u32 *)j->w[2], n = (u32)j->w[3], k = j->w[3] >> 32;
	if (illegal(out, 4ull * n) || illegal(work, 4ull * n)) return;
	for (u64 i = 0; i < n && i < items(j); i++) out[i] = work[n - 1 - i] + k;
}
static void k_slow(struct job *j) {
	u32 *x = (u32 *)j->w[0], n = (u32)j->w[1], k = j->w[1] >> 32;
	if (illegal(x, 4ull * n)) return;
	for (u64 i = 0; i < n && i < items(j); i++) for (u32 c = 0; c < k; c++) x[i] = x[i] * 1664525u + 1013904223u;
}
static void k_layout(struct job *j) {
	struct { u32 n; double a; int32_t b; u64 c; float d; } *p = (void *)&j->w[1];
	char *x = (char *)j->w[0];
	if (illegal(x, 28)) return;
	memcpy(x, &p->n, 4), memcpy(x + 4, &p->a, 8), memcpy(x + 12, &p->b, 4), memcpy(x + 16, &p->c, 8), memcpy(x + 24, &p->d, 4);
}
// Those of package collective: arrays to read, one to write, and their elements.
static void k_fold(struct job *j) {
	float *a = (float *)j->w[0], *b = (float *)j->w[1], *out = (float *)j->w[2];
	u32 n = (u32)j->w[3];
	if (illegal(a, 4ull * n) || illegal(b, 4ull * n) || illegal(out, 4ull * n)) return;
	for (u32 i = 0; i < n; i++) out[i] = a[i] + b[i];
}
static void k_most(struct job *j) {
	int32_t *a = (int32_t *)j->w[0], *b = (int32_t *)j->w[1], *out = (int32_t *)j->w[2];
	u32 n = (u32)j->w[3];
	if (illegal(a, 4ull * n) || illegal(b, 4ull * n) || illegal(out, 4ull * n)) return;
	for (u32 i = 0; i < n; i++) out[i] = a[i] > b[i] ? a[i] : b[i];
}
static void k_token(struct job *j) { if (!illegal((void *)j->w[0], 4)) *(u32 *)j->w[0] = 0; }
static void k_copy_4(struct job *j) {
	u32 n = (u32)j->w[2];
	if (illegal((void *)j->w[0], 4ull * n) || illegal((void *)j->w[1], 4ull * n)) return;
	memcpy((void *)j->w[1], (void *)j->w[0], 4ull * n);
}
static void k_copy(struct job *j) {
	void *to = (void *)j->w[0], *from = (void *)j->w[1];
	u64 n = j->w[2];
	if (!is_registered(to, n) && illegal(to, n)) return;
	if (!is_registered(from, n) && illegal(from, n)) return;
	memcpy(to, from, n);
}
// The probes of internal/probe: what they write, without the work.
static void k_probe(struct job *j) {
	u32 n = (u32)j->w[1];
	if (!illegal((void *)j->w[0], 16ull * n)) memset((void *)j->w[0], 1, 16ull * n);
}
static void k_stream(struct job *j) {
	u32 n = (u32)j->w[2];
	if (!illegal((void *)j->w[0], 16ull * n) && !illegal((void *)j->w[1], 16ull * n)) memcpy((void *)j->w[1], (void *)j->w[0], 16ull * n);
}
// The arithmetic of a check of internal/probe.
static void k_check(struct job *j) {
	u32 n = (u32)j->w[2], *in = (u32 *)j->w[0], *out = (u32 *)j->w[1];
	if (illegal(in, 16ull * n) || illegal(out, 16ull * n)) return;
	for (; n > 0; n--, in += 4, out += 4) {
		u32 a = in[0], b = in[1], c = in[2], d = in[3];
		for (int i = 0; i < 8; i++) {
			a += ((b << 7) | (b >> 25)) ^ c;
			d ^= a * 0x9e3779b1;
			float x = (float)(a >> 20), y = (float)(d >> 20), z = (float)(b >> 20);
			u32 more = (u32)(x * y + z), less = (u32)(int)((x - y) * z), was = a;
			a = b ^ more * 0x85ebca6b, b = ((c << 11) | (c >> 21)) + less, c = d, d = was;
		}
		out[0] = a, out[1] = b, out[2] = c, out[3] = d;
	}
}
// The kernel of weft bench failover.
static void k_failover(struct job *j) {
	uint8_t *from = (uint8_t *)j->w[0], *to = (uint8_t *)j->w[1];
	u64 n = items(j), begin = now_ns();
	if (illegal(from, n) || illegal(to, n)) return;
	do
		for (u64 i = 0; i < n; i++) to[i] = 3 * from[i] + i;
	while (now_ns() - begin < j->w[2]);
}
static struct kernel { const char *name; void (*run)(struct job *); int n; int sizes[4]; u32 shared; } kernels[] = {
	{"empty", k_empty, 0, {0}, 0}, {"add_one", k_add_one, 2, {8, 4}, 0}, {"add_two", k_add_two, 2, {8, 4}, 0},
	{"saxpy", k_saxpy, 3, {8, 8, 8}, 0}, {"through", k_through, 4, {8, 8, 8, 4}, 0}, {"spin", k_spin, 2, {8, 8}, 0},
	{"spin_long", k_spin_long, 2, {8, 8}, 0}, {"crash", k_crash, 1, {8}, 0}, {"meet", k_meet, 1, {8}, 0},
	{"large", k_large, 2, {8, 4}, 0}, {"cluster", k_cluster, 1, {8}, 0}, {"threads", k_threads, 1, {8}, 0},
	{"noop", k_empty, 0, {0}, 0}, {"add", k_add, 2, {8, 8}, 0}, {"spread", k_spread, 4, {8, 8, 8, 8}, 0},
	{"gather", k_gather, 4, {8, 8, 8, 8}, 0}, {"slow", k_slow, 2, {8, 8}, 0}, {"layout", k_layout, 2, {8, 40}, 0},
	{"fold_sum_f32", k_fold, 4, {8, 8, 8, 16}, 0}, {"fold_max_i32", k_most, 4, {8, 8, 8, 16}, 0},
	{"token", k_token, 2, {8, 16}, 0}, {"copy_4", k_copy_4, 3, {8, 8, 16}, 0},
	{"weft_copy", k_copy, 3, {8, 8, 8}, 0},
	{"probe_empty", k_empty, 0, {0}, 0}, {"probe_fp32", k_probe, 2, {8, 4}, 0}, {"probe_fp64", k_probe, 2, {8, 4}, 0},
	{"probe_int32", k_probe, 2, {8, 4}, 0}, {"probe_stream", k_stream, 3, {8, 8, 4}, 0}, {"probe_check", k_check, 3, {8, 8, 4}, 0},
	{"probe_crash", k_crash, 1, {8}, 0}, {"failover", k_failover, 3, {8, 8, 8}, 0},
};

struct module { u32 magic; char *text; };
result cuModuleLoadDataEx(struct module **m, const char *image, u32 n, int *options, void **values) {
	INCONTEXT();
	if (!strstr(image, ".entry")) {
		for (u32 i = 0; i + 1 < n; i++)
			if (options[i] == 5 && options[i + 1] == 6) snprintf(values[i], (size_t)values[i + 1], "ptxas fatal: PTX expected");
		return BADPTX;
	}
	// Code that names a folder is compiled once there is a file "go" in it.
	const char *held = strstr(image, "// held by ");
	if (held) {
		char dir[512], path[600];
		sscanf(held, "// held by %511s", dir);
		snprintf(path, sizeof path, "%s/begun", dir);
		FILE *begun = fopen(path, "w");
		if (begun) fclose(begun);
		snprintf(path, sizeof path, "%s/go", dir);
		while (access(path, F_OK)) usleep(50);
	}
	// Code that names an error is loaded the second time.
	static int last;
	const char *fails = strstr(image, "// fails once with ");
	int code = fails ? atoi(fails + 19) : 0;
	if (code && code != last) {
		last = code;
		return code;
	}
	*m = malloc(sizeof **m);
	**m = (struct module){0x40d, strdup(image)};
	return OK;
}
result cuModuleUnload(struct module *m) { INCONTEXT(); if (m->magic != 0x40d) return BADHANDLE; free(m->text); free(m); return OK; }
result cuModuleGetFunction(struct kernel **f, struct module *m, const char *name) {
	INCONTEXT();
	if (m->magic != 0x40d) return BADHANDLE;
	char entry[128];
	snprintf(entry, sizeof entry, ".entry %s(", name);
	for (u64 i = 0; i < sizeof kernels / sizeof *kernels; i++)
		if (!strcmp(kernels[i].name, name) && strstr(m->text, entry)) { *f = &kernels[i]; return OK; }
	return NOTFOUND;
}
result cuFuncGetParamInfo(struct kernel *f, u64 i, u64 *offset, u64 *size) {
	INCONTEXT();
	if (i >= (u64)f->n) return INVALID;
	*offset = 8 * i, *size = f->sizes[i];
	return OK;
}
result cuFuncSetAttribute(struct kernel *f, int attr, int v) {
	INCONTEXT();
	if (attr == 8) { if (v > 227 << 10) return INVALID; f->shared = v; return OK; }
	return attr == 14 && v == 1 ? OK : INVALID;
}
result cuOccupancyMaxPotentialBlockSize(int *grid, int *block, struct kernel *f, void *shared_of, u64 shared, int limit) {
	INCONTEXT();
	if (!f || shared_of || shared > 227 << 10 || limit) return INVALID;
	*grid = 8, *block = 768;
	return OK;
}
// 1,536 threads and 64 KiB of shared memory at once, in no more than 11 blocks: of
// 64 threads they are less than half.
result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, struct kernel *f, int block, u64 shared) {
	INCONTEXT();
	if (!f || block < 1 || block > 1024) return INVALID;
	*blocks = 1536 / block > 11 ? 11 : 1536 / block;
	if (shared && (u64)*blocks > (64 << 10) / shared) *blocks = (64 << 10) / shared;
	return OK;
}
static result start(struct kernel *f, u32 *dims, u32 shared, struct stream *s, void **params, u64 cluster, u64 cooperative) {
	if (!dims[0] || !dims[1] || !dims[2] || !dims[3] || !dims[4] || !dims[5] || (u64)dims[3] * dims[4] * dims[5] > 1024) return INVALID;
	if (shared > 48 << 10 && shared > f->shared) return INVALID;
	if (cluster && dims[0] % cluster) return INVALID;
	if (cooperative && dims[0] > 4 * 1536 / dims[3]) return 720;
	struct job j = {.run = f->run};
	for (int i = 0; i < f->n; i++) memcpy(&j.w[i], params[i], f->sizes[i]);
	memcpy(j.dims, dims, sizeof j.dims);
	j.w[30] = cluster, j.w[31] = cooperative;
	return put(s, &j);
}
result cuLaunchKernel(struct kernel *f, u32 gx, u32 gy, u32 gz, u32 bx, u32 by, u32 bz, u32 shared, struct stream *s, void **params, void **extra) {
	INCONTEXT();
	if (extra) return INVALID;
	called(s->capturing ? 2 : 0);
	return start(f, (u32[]){gx, gy, gz, bx, by, bz}, shared, s, params, 0, 0);
}
struct attribute { int id, pad; u32 v[16]; };
struct config { u32 dims[6], shared; struct stream *s; struct attribute *attrs; u32 n; };
result cuLaunchKernelEx(struct config *c, struct kernel *f, void **params, void **extra) {
	INCONTEXT();
	if (extra || c->n > 2) return INVALID;
	u64 cluster = 0, cooperative = 0;
	for (u32 i = 0; i < c->n; i++) switch (c->attrs[i].id) {
		case 2: cooperative = c->attrs[i].v[0]; break;
		case 4: cluster = (u64)c->attrs[i].v[0] * c->attrs[i].v[1] * c->attrs[i].v[2]; break;
		default: return INVALID;
	}
	return start(f, c->dims, c->shared, c->s, params, cluster, cooperative);
}

// Graphs: a list of jobs.

struct graph { u32 magic; struct job *jobs; };
static struct job *copy_jobs(struct job *j) {
	struct job *head = 0, **tail = &head;
	for (; j; j = j->next) { *tail = malloc(sizeof *j); **tail = *j; (*tail)->next = 0; tail = &(*tail)->next; }
	return head;
}
static void free_jobs(struct job *j) { while (j) { struct job *n = j->next; free(j); j = n; } }
result cuStreamBeginCapture_v2(struct stream *s, int mode) {
	INCONTEXT();
	if (mode != 1 || s->capturing) return INVALID;
	pthread_mutex_lock(&s->mu);
	s->capturing = 1, s->graph = 0, s->graph_tail = &s->graph;
	pthread_mutex_unlock(&s->mu);
	return OK;
}
result cuStreamEndCapture(struct stream *s, struct graph **g) {
	INCONTEXT();
	if (!s->capturing) return INVALID;
	*g = malloc(sizeof **g);
	pthread_mutex_lock(&s->mu);
	**g = (struct graph){0x96, s->graph};
	s->capturing = 0;
	pthread_mutex_unlock(&s->mu);
	return OK;
}
result cuGraphInstantiateWithFlags(struct graph **e, struct graph *g, u64 flags) {
	INCONTEXT();
	if (g->magic != 0x96 || flags) return INVALID;
	*e = malloc(sizeof **e);
	**e = (struct graph){0x9e, copy_jobs(g->jobs)};
	return OK;
}
// A node is its place in the graph. Parameters are those of version 2.
struct node { u32 magic; int index; struct graph *of; };
struct node_params { struct kernel *f; u32 dims[6], shared; void **params, **extra; void *kern, *ctx; };
result cuGraphCreate(struct graph **g, u32 flags) { INCONTEXT(); if (flags) return INVALID; *g = malloc(sizeof **g); **g = (struct graph){0x96, 0}; return OK; }
static result node_job(struct node_params *p, struct job *j) {
	if (p->extra || p->kern || p->ctx) return INVALID;
	struct stream s = {.magic = 0x57, .capturing = 1};
	pthread_mutex_init(&s.mu, 0);
	s.graph_tail = &s.graph;
	result e = start(p->f, p->dims, p->shared, &s, p->params, 0, 0);
	if (e) return e;
	*j = *s.graph;
	free(s.graph);
	return OK;
}
result cuGraphAddKernelNode_v2(struct node **n, struct graph *g, struct node **after, u64 count, struct node_params *p) {
	INCONTEXT();
	if (g->magic != 0x96 || count > 1) return INVALID;
	struct job **tail = &g->jobs;
	int index = 0;
	for (; *tail; tail = &(*tail)->next) index++;
	if (index ? count != 1 || after[0]->magic != 0x4de || after[0]->index != index - 1 : count != 0) return INVALID;
	struct job *j = malloc(sizeof *j);
	result e = node_job(p, j);
	if (e) return free(j), e;
	*tail = j;
	*n = malloc(sizeof **n);
	**n = (struct node){0x4de, index, g};
	return OK;
}
result cuGraphExecKernelNodeSetParams_v2(struct graph *e, struct node *n, struct node_params *p) {
	INCONTEXT();
	if (e->magic != 0x9e || n->magic != 0x4de || n->of->magic != 0x96) return INVALID;
	struct job *j = e->jobs, fresh;
	for (int i = 0; i < n->index && j; i++) j = j->next;
	if (!j) return INVALID;
	result r = node_job(p, &fresh);
	if (r) return r;
	fresh.next = j->next;
	*j = fresh;
	return OK;
}
// A graph that is destroyed takes its nodes with it; what was made of it lives on.
result cuGraphDestroy(struct graph *g) { INCONTEXT(); if (g->magic != 0x96) return BADHANDLE; free_jobs(g->jobs); g->magic = 0; return OK; }
result cuGraphExecDestroy(struct graph *g) { INCONTEXT(); if (g->magic != 0x9e) return BADHANDLE; free_jobs(g->jobs); free(g); return OK; }
result cuGraphExecUpdate_v2(struct graph *e, struct graph *g, void *info) {
	INCONTEXT();
	if (e->magic != 0x9e || g->magic != 0x96 || !info) return INVALID;
	struct job *a = e->jobs, *b = g->jobs;
	for (; a && b; a = a->next, b = b->next) if (a->run != b->run) return UPDATEFAILED;
	if (a || b) return UPDATEFAILED;
	free_jobs(e->jobs);
	e->jobs = copy_jobs(g->jobs);
	return OK;
}
result cuGraphLaunch(struct graph *e, struct stream *s) {
	INCONTEXT();
	if (e->magic != 0x9e) return BADHANDLE;
	called(1);
	for (struct job *j = e->jobs; j; j = j->next) { result r = put(s, j); if (r) return r; }
	return OK;
}

// NVML.

typedef struct { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; } pci;
static int gpus[DEVICES];
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int e) { return e == 10 ? "Timeout" : "stub error"; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, int **out) {
	u32 domain, bus;
	if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || domain || bus < 1 || bus > DEVICES) return 6;
	*out = &gpus[bus - 1];
	return 0;
}
int nvmlDeviceGetTemperature(int *g, int sensor, u32 *v) { (void)g; if (sensor) return 2; *v = 41; return 0; }
int nvmlDeviceGetPowerUsage(int *g, u32 *v) { (void)g; *v = 123000; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(int *g, u32 *v) { (void)g; *v = 700000; return 0; }
int nvmlDeviceGetClockInfo(int *g, int type, u32 *v) { (void)g; if (type != 1) return 2; *v = 1980; return 0; }
int nvmlDeviceGetUtilizationRates(int *g, u32 *v) { (void)g; v[0] = 25, v[1] = 10; return 0; }
int nvmlDeviceGetMemoryInfo(int *g, u64 *v) { u64 u = used[g - gpus]; v[0] = TOTAL, v[1] = TOTAL - u, v[2] = u; return 0; }
int nvmlDeviceGetTotalEccErrors(int *g, int type, int counter, u64 *v) { (void)g; if (type != 1 || counter) return 2; *v = 0; return 0; }
int nvmlDeviceGetNvLinkState(int *g, u32 link, u32 *v) { (void)g; if (link >= 4) return 2; *v = link < 2; return 0; }
int nvmlDeviceGetNvLinkVersion(int *g, u32 link, u32 *v) { (void)g, (void)link; *v = 4; return 0; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(int *g, u32 link, pci *v) {
	(void)link;
	memset(v, 0, sizeof *v);
	snprintf(v->bus_id, sizeof v->bus_id, "00000000:0%d:00.0", g == gpus ? 2 : 1);
	return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(int *g, u32 *v) { (void)g; *v = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(int *g, u32 *v) { (void)g; *v = 16; return 0; }
int nvmlDeviceGetTopologyCommonAncestor(int *a, int *b, u32 *v) { (void)a, (void)b; *v = 20; return 0; }
static int events, pending_events;
static u64 event_kind, event_data;
// weftStubEvent makes something happen to the GPUs, once.
void weftStubEvent(u64 kind, u64 data) { event_kind = kind, event_data = data; __atomic_store_n(&pending_events, 1, __ATOMIC_SEQ_CST); }
int nvmlEventSetCreate(int **s) { *s = &events; return 0; }
int nvmlEventSetFree(int *s) { return s == &events ? 0 : 2; }
int nvmlDeviceRegisterEvents(int *g, u64 types, int *s) { (void)g; return types == 10 && s == &events ? 0 : 2; }
struct happening { int *device; u64 kind, data; u32 instances[2]; };
int nvmlEventSetWait_v2(int *s, void *data, u32 ms) {
	if (s != &events || ms) return 2;
	if (!__atomic_exchange_n(&pending_events, 0, __ATOMIC_SEQ_CST)) return 10;
	*(struct happening *)data = (struct happening){gpus, event_kind, event_data, {0}};
	return 0;
}

// cuBLAS: by columns, as Fortran counts.

struct blas { u32 magic; struct stream *s; };
int cublasCreate_v2(struct blas **h) { if (!current) return 1; *h = calloc(1, sizeof **h); (*h)->magic = 0xb1a5; return 0; }
int cublasDestroy_v2(struct blas *h) { if (h->magic != 0xb1a5) return 1; free(h); return 0; }
int cublasSetStream_v2(struct blas *h, struct stream *s) { if (h->magic != 0xb1a5 || s->magic != 0x57) return 1; h->s = s; return 0; }
const char *cublasGetStatusString(int e) { return e == 7 ? "an unsupported value" : "stub status"; }
static double load(const void *p, u64 i, int type) {
	if (type == 1) return ((double *)p)[i];
	if (type == 0) return ((float *)p)[i];
	u32 bits = (u32)((uint16_t *)p)[i] << 16;
	float f;
	memcpy(&f, &bits, 4);
	return f;
}
static void store(void *p, u64 i, int type, double v) {
	float f = v;
	u32 bits;
	memcpy(&bits, &f, 4);
	if (type == 1) ((double *)p)[i] = v;
	else if (type == 0) ((float *)p)[i] = f;
	else ((uint16_t *)p)[i] = (bits + 0x8000) >> 16;
}
static void run_gemm(struct job *j) {
	u64 m = j->w[0], n = j->w[1], k = j->w[2], lda = j->w[4], ldb = j->w[6], ldc = j->w[8];
	int type = j->w[9];
	u64 size = type == 1 ? 8 : type == 0 ? 4 : 2;
	void *a = (void *)j->w[3], *b = (void *)j->w[5], *c = (void *)j->w[7];
	if (illegal(a, size * lda * k) || illegal(b, size * ldb * n) || illegal(c, size * ldc * n)) return;
	for (u64 x = 0; x < n; x++)
		for (u64 y = 0; y < m; y++) {
			double sum = 0;
			for (u64 p = 0; p < k; p++) sum += load(a, p * lda + y, type) * load(b, x * ldb + p, type);
			store(c, x * ldc + y, type, sum);
		}
}
int cublasGemmEx(struct blas *h, int ta, int tb, int m, int n, int k, void *alpha, void *a, int at, int lda, void *b, int bt, int ldb, void *beta, void *c, int ct, int ldc, int compute, int algo) {
	if (h->magic != 0xb1a5 || ta || tb || at != bt || bt != ct || algo != -1 || lda < m || ldb < k || ldc < m) return 7;
	int ok = (at == 0 && (compute == 68 || compute == 77)) || (at == 14 && compute == 68) || (at == 1 && compute == 70);
	if (!ok || (at == 1 ? *(double *)alpha != 1 || *(double *)beta != 0 : *(float *)alpha != 1 || *(float *)beta != 0)) return 7;
	return put(h->s, &(struct job){run_gemm, {m, n, k, (u64)a, lda, (u64)b, ldb, (u64)c, ldc, at}});
}

// cuDNN: the one convolution.

struct descriptor { int kind, v[8]; };
int cudnnCreate(struct blas **h) { if (!current) return 1; *h = calloc(1, sizeof **h); (*h)->magic = 0xd22; return 0; }
int cudnnDestroy(struct blas *h) { if (h->magic != 0xd22) return 1; free(h); return 0; }
int cudnnSetStream(struct blas *h, struct stream *s) { if (h->magic != 0xd22 || s->magic != 0x57) return 1; h->s = s; return 0; }
const char *cudnnGetErrorString(int e) { (void)e; return "stub status"; }
static int describe(struct descriptor **d, int kind) { *d = calloc(1, sizeof **d); (*d)->kind = kind; return 0; }
int cudnnCreateTensorDescriptor(struct descriptor **d) { return describe(d, 1); }
int cudnnCreateFilterDescriptor(struct descriptor **d) { return describe(d, 2); }
int cudnnCreateConvolutionDescriptor(struct descriptor **d) { return describe(d, 3); }
int cudnnSetTensor4dDescriptor(struct descriptor *d, int format, int type, int n, int c, int h, int w) {
	if (d->kind != 1 || format || type) return 3;
	memcpy(d->v, (int[]){n, c, h, w}, 16);
	return 0;
}
int cudnnSetFilter4dDescriptor(struct descriptor *d, int type, int format, int k, int c, int h, int w) {
	if (d->kind != 2 || format || type) return 3;
	memcpy(d->v, (int[]){k, c, h, w}, 16);
	return 0;
}
int cudnnSetConvolution2dDescriptor(struct descriptor *d, int ph, int pw, int u, int v, int dh, int dw, int mode, int type) {
	if (d->kind != 3 || dh != 1 || dw != 1 || mode != 1 || type) return 3;
	memcpy(d->v, (int[]){ph, pw, u, v}, 16);
	return 0;
}
int cudnnSetConvolutionMathType(struct descriptor *d, int math) { if (d->kind != 3 || (math != 0 && math != 3)) return 3; d->v[4] = math; return 0; }
struct perf { int algo, status; float time; u64 memory; int determinism, math, reserved[3]; };
int cudnnFindConvolutionForwardAlgorithmEx(struct blas *h, struct descriptor *x, void *xp, struct descriptor *w, void *wp, struct descriptor *c, struct descriptor *y, void *yp, int asked, int *found, struct perf *perf, void *work, u64 bytes) {
	if (h->magic != 0xd22 || x->kind != 1 || w->kind != 2 || c->kind != 3 || y->kind != 1 || !xp || !wp || !yp || asked < 3 || !work || !bytes) return 3;
	perf[0] = (struct perf){5, 9, 0.1f, 0, 0, 0, {0}}; // one that does not work
	*found = 1;
	if (c->v[4] == 3) perf[(*found)++] = (struct perf){6, 0, 0.1f, 1 << 12, 1, 0, {0}}; // by Winograd, whose rounding is larger
	perf[(*found)++] = (struct perf){1, 0, 0.2f, 1 << 12, 1, 0, {0}};
	return 0;
}
static void run_conv(struct job *j) {
	struct descriptor *dx = (void *)j->w[0], *dw = (void *)j->w[1], *dc = (void *)j->w[2], *dy = (void *)j->w[3];
	float *x = (void *)j->w[4], *w = (void *)j->w[5], *y = (void *)j->w[6];
	int *a = dx->v, *f = dw->v, *o = dy->v;
	if (illegal(x, 4ull * a[0] * a[1] * a[2] * a[3]) || illegal(w, 4ull * f[0] * f[1] * f[2] * f[3]) || illegal(y, 4ull * o[0] * o[1] * o[2] * o[3])) return;
	for (int n = 0; n < o[0]; n++) for (int k = 0; k < o[1]; k++) for (int r = 0; r < o[2]; r++) for (int q = 0; q < o[3]; q++) {
		float sum = 0;
		for (int c = 0; c < f[1]; c++) for (int i = 0; i < f[2]; i++) for (int l = 0; l < f[3]; l++) {
			int yy = r * dc->v[2] + i - dc->v[0], xx = q * dc->v[3] + l - dc->v[1];
			if (yy >= 0 && yy < a[2] && xx >= 0 && xx < a[3])
				sum += x[((n * a[1] + c) * a[2] + yy) * a[3] + xx] * w[((k * f[1] + c) * f[2] + i) * f[3] + l];
		}
		y[((n * o[1] + k) * o[2] + r) * o[3] + q] = sum;
	}
}
int cudnnConvolutionForward(struct blas *h, float *alpha, struct descriptor *x, void *xp, struct descriptor *w, void *wp, struct descriptor *c, int algo, void *work, u64 bytes, float *beta, struct descriptor *y, void *yp) {
	if (h->magic != 0xd22 || algo != 1 || *alpha != 1 || *beta != 0 || !work || bytes != 1 << 12) return 3;
	return put(h->s, &(struct job){run_conv, {(u64)x, (u64)w, (u64)c, (u64)y, (u64)xp, (u64)wp, (u64)yp}});
}

// NCCL: ranks meet in memory that is known by a name, so that they may be in
// different processes. Operations are jobs on streams, wait for all ranks like the
// real ones, and end when their communicator is aborted.

#define RANKS 8
#define BOX (256u << 10)
struct id { char name[128]; };
struct box { u64 sent, received; char data[BOX]; };
struct meeting { int joined, device[RANKS]; u64 entered[RANKS], left[RANKS]; char data[RANKS][BOX]; struct box box[RANKS][RANKS]; };
struct comm { u32 magic; struct meeting *m; int ranks, rank, nonblocking, aborted, jobs; u64 round; char name[64]; };
static __thread int groups;
int ncclGetUniqueId(struct id *id) {
	static int n;
	memset(id, 0, sizeof *id);
	snprintf(id->name, sizeof id->name, "/weft-stub-%d-%d", getpid(), __atomic_add_fetch(&n, 1, __ATOMIC_SEQ_CST));
	id->name[127] = 77;
	return 0;
}
const char *ncclGetErrorString(int e) { return e == 5 ? "invalid usage" : "stub result"; }
static int joined(struct comm *c) { return __atomic_load_n(&c->m->joined, __ATOMIC_SEQ_CST) >= c->ranks; }
int ncclCommGetAsyncError(struct comm *c, int *state) {
	if (c->magic != 0xcc) return 4;
	*state = joined(c) ? 0 : 7;
	for (int i = 0; i < c->ranks && !*state; i++)
		for (int k = 0; k < i; k++) if (c->m->device[i] == c->m->device[k]) *state = 5; // two ranks on one GPU
	return 0;
}
static int enter(struct comm **out, int ranks, struct id *id, int rank, int nonblocking) {
	if (!current) return 1;
	if (strncmp(id->name, "/weft-stub-", 11) || id->name[127] != 77 || ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks) return 4;
	int fd = shm_open(id->name, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct meeting))) return 2;
	struct comm *c = calloc(1, sizeof *c);
	*c = (struct comm){.magic = 0xcc, .m = mmap(0, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), .ranks = ranks, .rank = rank, .nonblocking = nonblocking};
	close(fd);
	snprintf(c->name, sizeof c->name, "%.63s", id->name);
	c->m->device[rank] = device();
	if (__atomic_add_fetch(&c->m->joined, 1, __ATOMIC_SEQ_CST) == ranks) shm_unlink(c->name);
	*out = c;
	return 0;
}
int ncclCommInitRank(struct comm **c, int ranks, struct id id, int rank) {
	int e = enter(c, ranks, &id, rank, 0);
	while (!e && !joined(*c)) usleep(50);
	return e;
}
struct nccl_config { u64 size; u32 magic, version; int blocking, more; };
int ncclCommInitRankConfig(struct comm **c, int ranks, struct id id, int rank, struct nccl_config *k) {
	if (k->size != 24 || k->magic != 0xcafebeef || k->version != 21400 || k->blocking) return 4;
	int e = enter(c, ranks, &id, rank, 1);
	return e ? e : 7;
}
int ncclCommAbort(struct comm *c) {
	if (c->magic != 0xcc || !current) return 4;
	__atomic_store_n(&c->aborted, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&c->jobs, __ATOMIC_SEQ_CST)) usleep(50);
	if (!joined(c)) shm_unlink(c->name);
	munmap(c->m, sizeof *c->m);
	c->magic = 0;
	free(c);
	return 0;
}
int ncclGroupStart(void) { groups++; return 0; }
int ncclGroupEnd(void) { return groups-- > 0 ? 0 : 5; }

static u64 element(int type) { return type == 8 || type == 4 ? 8 : type == 6 || type == 9 ? 2 : type == 7 || type == 2 ? 4 : 0; }
static double get(const void *p, u64 i, int type) {
	switch (type) {
	case 7: return ((float *)p)[i];
	case 8: return ((double *)p)[i];
	case 6: return ((_Float16 *)p)[i];
	case 2: return ((int32_t *)p)[i];
	case 4: return ((int64_t *)p)[i];
	}
	return load(p, i, 14);
}
static void set(void *p, u64 i, int type, double v) {
	switch (type) {
	case 7: ((float *)p)[i] = v; return;
	case 8: ((double *)p)[i] = v; return;
	case 6: ((_Float16 *)p)[i] = v; return;
	case 2: ((int32_t *)p)[i] = v; return;
	case 4: ((int64_t *)p)[i] = v; return;
	}
	store(p, i, 14, v);
}
// meet waits until all ranks are as far as this one, or it is over.
static int meet(struct comm *c, u64 *at) {
	__atomic_store_n(&at[c->rank], c->round, __ATOMIC_SEQ_CST);
	for (int i = 0; i < c->ranks; i++)
		while (__atomic_load_n(&at[i], __ATOMIC_SEQ_CST) < c->round) {
			if (__atomic_load_n(&c->aborted, __ATOMIC_SEQ_CST) || poison) return 0;
			usleep(50);
		}
	return 1;
}
enum { ALLREDUCE, REDUCE, SCATTER, BROADCAST, GATHER };
// Words: kind, comm, send, receive, elements, type, fold, root.
static void collect(struct job *j, struct comm *c) {
	int kind = j->w[0], type = j->w[5], op = j->w[6], root = j->w[7];
	u64 n = j->w[4], size = element(type), bring = size * n * (kind == SCATTER ? c->ranks : 1), gets = size * n * (kind == GATHER ? c->ranks : 1);
	void *send = (void *)j->w[2], *receive = (void *)j->w[3];
	int brings = kind != BROADCAST || c->rank == root, wants = kind != REDUCE || c->rank == root;
	if ((brings && illegal(send, bring)) || (wants && illegal(receive, gets))) return;
	c->round++;
	if (brings) memcpy(c->m->data[c->rank], send, bring);
	if (!meet(c, c->m->entered)) return;
	if (kind == BROADCAST) memcpy(receive, c->m->data[root], gets);
	else if (kind == GATHER) for (int r = 0; r < c->ranks; r++) memcpy((char *)receive + r * size * n, c->m->data[r], size * n);
	else if (wants) for (u64 i = 0; i < n; i++) {
		u64 at = i + (kind == SCATTER ? c->rank * n : 0);
		double sum = get(c->m->data[0], at, type);
		for (int r = 1; r < c->ranks; r++) {
			double x = get(c->m->data[r], at, type);
			sum = op == 1 ? sum * x : op == 2 ? (x > sum ? x : sum) : op == 3 ? (x < sum ? x : sum) : sum + x;
		}
		set(receive, i, type, op == 4 ? sum / c->ranks : sum);
	}
	meet(c, c->m->left); // before anybody writes again
}
static void transfer(struct job *j, struct comm *c) {
	u64 bytes = j->w[4] * element(j->w[5]);
	int peer = j->w[7], sends = j->w[0] == 0;
	void *data = (void *)j->w[2];
	if (illegal(data, bytes)) return;
	struct box *b = sends ? &c->m->box[c->rank][peer] : &c->m->box[peer][c->rank];
	for (;;) {
		u64 sent = __atomic_load_n(&b->sent, __ATOMIC_SEQ_CST), received = __atomic_load_n(&b->received, __ATOMIC_SEQ_CST);
		if (sends ? sent == received : sent > received) break;
		if (__atomic_load_n(&c->aborted, __ATOMIC_SEQ_CST) || poison) return;
		usleep(50);
	}
	if (sends) memcpy(b->data, data, bytes); else memcpy(data, b->data, bytes);
	__atomic_add_fetch(sends ? &b->sent : &b->received, 1, __ATOMIC_SEQ_CST);
}
static void run_collect(struct job *j) { struct comm *c = (void *)j->w[1]; collect(j, c); __atomic_sub_fetch(&c->jobs, 1, __ATOMIC_SEQ_CST); }
static void run_transfer(struct job *j) { struct comm *c = (void *)j->w[1]; transfer(j, c); __atomic_sub_fetch(&c->jobs, 1, __ATOMIC_SEQ_CST); }
static int begin(struct job *j, struct stream *s) {
	struct comm *c = (void *)j->w[1];
	if (c->magic != 0xcc || !joined(c) || !element(j->w[5]) || j->w[6] > 4 || j->w[7] >= (u64)c->ranks) return 4;
	if (j->w[4] * element(j->w[5]) * c->ranks > BOX) return 4; // more than this stub has room for
	__atomic_add_fetch(&c->jobs, 1, __ATOMIC_SEQ_CST);
	if (put(s, j)) { __atomic_sub_fetch(&c->jobs, 1, __ATOMIC_SEQ_CST); return 1; }
	return c->nonblocking ? 7 : 0;
}
#define JOB(run, ...) begin(&(struct job){run, {__VA_ARGS__}}, s)
int ncclAllReduce(void *a, void *b, u64 n, int type, int op, struct comm *c, struct stream *s) { return JOB(run_collect, ALLREDUCE, (u64)c, (u64)a, (u64)b, n, type, op, 0); }
int ncclReduce(void *a, void *b, u64 n, int type, int op, int root, struct comm *c, struct stream *s) { return JOB(run_collect, REDUCE, (u64)c, (u64)a, (u64)b, n, type, op, root); }
int ncclReduceScatter(void *a, void *b, u64 n, int type, int op, struct comm *c, struct stream *s) { return JOB(run_collect, SCATTER, (u64)c, (u64)a, (u64)b, n, type, op, 0); }
int ncclBroadcast(void *a, void *b, u64 n, int type, int root, struct comm *c, struct stream *s) { return JOB(run_collect, BROADCAST, (u64)c, (u64)a, (u64)b, n, type, 0, root); }
int ncclAllGather(void *a, void *b, u64 n, int type, struct comm *c, struct stream *s) { return JOB(run_collect, GATHER, (u64)c, (u64)a, (u64)b, n, type, 0, 0); }
int ncclSend(void *a, u64 n, int type, int peer, struct comm *c, struct stream *s) { return JOB(run_transfer, 0, (u64)c, (u64)a, 0, n, type, 0, peer); }
int ncclRecv(void *a, u64 n, int type, int peer, struct comm *c, struct stream *s) { return JOB(run_transfer, 1, (u64)c, (u64)a, 0, n, type, 0, peer); }

// NVRTC: finds the names of kernels, and trips over names that are not defined. Its PTX
// has a structure for a last parameter that is no pointer, and is empty for sources that
// say "no PTX".

struct program { char *source, *log, *image, *ptx; };
const char *nvrtcGetErrorString(int e) { (void)e; return "NVRTC_ERROR_COMPILATION"; }
static int nvrtc_nameless; // nvrtcVersion fails
int stubNVRTCNameless(int on) { nvrtc_nameless = on; return 0; }
int nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return nvrtc_nameless; }
int nvrtcCreateProgram(struct program **p, const char *src, const char *name, int n, void *h, void *i) {
	if (!name || n || h || i) return 3;
	*p = calloc(1, sizeof **p);
	(*p)->source = strdup(src);
	return 0;
}
static char *declare(const char *name, const char *signature) {
	char *ptx = calloc(1, 512), *to = ptx;
	const char *end = strchr(signature, ')'), *last = end;
	while (last && last[-1] != ',' && last[-1] != '(') last--;
	int structure = last && !memchr(last, '*', end - last);
	for (u64 i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		struct kernel *k = &kernels[i];
		if (strcmp(k->name, name)) continue;
		to += sprintf(to, ".visible .entry %s(", name);
		for (int j = 0; j < k->n; j++)
			to += j < k->n - 1 || !structure ? sprintf(to, "%s.param .u%d p%d", j ? ", " : "", 8 * k->sizes[j], j)
			                                 : sprintf(to, "%s.param .align 4 .b8 p%d[%d]", j ? ", " : "", j, k->sizes[j]);
		sprintf(to, ") { ret; }");
	}
	return ptx;
}
int nvrtcCompileProgram(struct program *p, int n, const char **options) {
	if (n != 1 || strcmp(options[0], "--gpu-architecture=sm_90")) return 5;
	p->log = strdup("");
	if (strstr(p->source, "undefined_name")) { p->log = strdup("kernel.cu(1): error: identifier \"undefined_name\" is undefined"); return 6; }
	char name[64];
	char *at = strstr(p->source, "__global__ void ");
	if (!at || sscanf(at, "__global__ void %63[a-z_]", name) != 1) return 6;
	p->image = malloc(128);
	snprintf(p->image, 128, "// cubin\n.entry %s(", name);
	p->ptx = strstr(p->source, "no PTX") ? strdup("") : declare(name, at);
	return 0;
}
int nvrtcGetProgramLogSize(struct program *p, u64 *n) { *n = strlen(p->log) + 1; return 0; }
int nvrtcGetProgramLog(struct program *p, char *s) { strcpy(s, p->log); return 0; }
int nvrtcGetCUBINSize(struct program *p, u64 *n) { *n = strlen(p->image) + 1; return 0; }
int nvrtcGetCUBIN(struct program *p, char *s) { strcpy(s, p->image); return 0; }
int nvrtcGetPTXSize(struct program *p, u64 *n) { *n = strlen(p->ptx) + 1; return 0; }
int nvrtcGetPTX(struct program *p, char *s) { strcpy(s, p->ptx); return 0; }
int nvrtcDestroyProgram(struct program **p) { free((*p)->source); free(*p); *p = 0; return 0; }

// A copy as a kernel, for short ones between device memory and page-locked host
// memory: it stays on the stream's own engine, where a copy engine would cost
// the stream several microseconds of waiting for another.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 uint4 __attribute__((ext_vector_type(4)));

#define INLINE static inline __attribute__((device, always_inline))

INLINE u64 item() { return (u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x(); }
INLINE u64 items() { return (u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x(); }

template <class T>
INLINE void copy(T *to, const T *from, u64 n) {
	for (u64 i = item(); i < n; i += items())
		to[i] = from[i];
}

extern "C" __attribute__((global)) void weft_copy(char *to, const char *from, u64 n) {
	u64 odd = (u64)to | (u64)from | n;
	if ((odd & 15) == 0)
		copy((uint4 *)to, (const uint4 *)from, n / 16);
	else if ((odd & 3) == 0)
		copy((u32 *)to, (const u32 *)from, n / 4);
	else
		copy(to, from, n);
}

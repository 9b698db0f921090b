/* name.h: FC_CPU_NAME(prefill) is fc_cpu_avx2_prefill where FC_CPU_ISA is avx2: kernels are
 * compiled once per instruction set. */
#ifndef FC_CPU_NAME_H
#define FC_CPU_NAME_H

#define FC_CPU_JOIN_(isa, name) fc_cpu_##isa##_##name
#define FC_CPU_JOIN(isa, name) FC_CPU_JOIN_(isa, name)
#define FC_CPU_NAME(name) FC_CPU_JOIN(FC_CPU_ISA, name)

#endif

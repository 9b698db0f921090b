/* operand.h: the element type of the matrix step, matmul.h. */
#ifndef FC_CPU_OPERAND_H
#define FC_CPU_OPERAND_H

#if defined(FC_MATMUL_AMX) || defined(FC_MATMUL_DOT) || defined(FC_MATMUL_BFMMLA)
#include "cpu/operand_bf16.h"
#else
#include "cpu/operand_f32.h"
#endif

#endif

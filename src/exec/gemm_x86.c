/* gemm_x86.c - to be written */
typedef int uvcci_not_yet;

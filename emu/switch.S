/* switch.S: void emu_switch(void **save, void *load): keeps the registers that a function must
 * keep on the stack, the stack pointer in *save, and goes on with the stack `load`.
 * emu_fiber_begin is where a new fiber starts; emu_fiber_prepare (fiber.c) lays out its stack. */

    .text
    .globl emu_switch
    .hidden emu_switch
    .type emu_switch, %function
    .globl emu_fiber_begin
    .hidden emu_fiber_begin
    .type emu_fiber_begin, %function

#if defined(__aarch64__)

    .p2align 4
emu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret

emu_fiber_begin:
    blr x19
    brk #1

#elif defined(__x86_64__)

    .p2align 4
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret

emu_fiber_begin:
    call *%rbx
    ud2

#else
#error "emu/switch.S has no context switch for this processor"
#endif

    .size emu_switch, . - emu_switch
    .section .note.GNU-stack, "", %progbits

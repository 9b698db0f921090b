/* test_sha256.c: the digests of FIPS 180-4's examples, whole and in pieces. */
#include "jit/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* after what it needs */

static const struct {
    const char *message;
    const char *digest;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
};

static void finish_as_text(jit_sha256 *hash, char text[2 * JIT_SHA256_BYTES + 1])
{
    unsigned char digest[JIT_SHA256_BYTES];
    jit_sha256_finish(hash, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void test_standard_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        jit_sha256 hash;
        char text[2 * JIT_SHA256_BYTES + 1];
        jit_sha256_start(&hash);
        jit_sha256_add(&hash, vectors[i].message, strlen(vectors[i].message));
        finish_as_text(&hash, text);
        assert_string_equal(text, vectors[i].digest);
    }
}

static void test_a_million_letters(void **state)
{
    (void)state;
    jit_sha256 hash;
    char text[2 * JIT_SHA256_BYTES + 1], letters[1000];
    memset(letters, 'a', sizeof letters);
    jit_sha256_start(&hash);
    for (int i = 0; i < 1000; i++)
        jit_sha256_add(&hash, letters, sizeof letters);
    finish_as_text(&hash, text);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Lengths around one and two blocks, each cut in two at every place. */
static void test_pieces_do_not_matter(void **state)
{
    (void)state;
    unsigned char message[2 * JIT_SHA256_BLOCK + 2];
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (unsigned char)(7 * i + 1);
    for (size_t bytes = 0; bytes <= sizeof message; bytes++) {
        jit_sha256 hash;
        unsigned char whole[JIT_SHA256_BYTES], pieces[JIT_SHA256_BYTES];
        jit_sha256_start(&hash);
        jit_sha256_add(&hash, message, bytes);
        jit_sha256_finish(&hash, whole);
        for (size_t first = 0; first <= bytes; first++) {
            jit_sha256_start(&hash);
            jit_sha256_add(&hash, message, first);
            jit_sha256_add(&hash, message + first, bytes - first);
            jit_sha256_finish(&hash, pieces);
            assert_memory_equal(whole, pieces, sizeof whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_vectors),
        cmocka_unit_test(test_a_million_letters),
        cmocka_unit_test(test_pieces_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

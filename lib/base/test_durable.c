/* ranks: 1  device: cpu  The parent folder of a path. tests/more/durable.sh checks the flush. */
#include "lib/base/durable.h"

#include "tests/test.h"
#include <sys/stat.h>
#include <unistd.h>

TEST(test_the_folder_of_a_name_is_flushed) {
    char here[4096];
    const char *folder = test_path("durable");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_ok(durable_folder(folder));
    assert_ok(durable_name(folder));
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("a", 0700), 0);
    assert_ok(durable_name("a"));
    assert_ok(durable_name("a/"));
    assert_ok(durable_name("./a//b"));
    assert_ok(durable_name("/tmp"));
    assert_fails(durable_name("none/b"), E_IO, "none");
    assert_fails(durable_folder("none"), E_IO, "cannot open none", "No such file");
    assert_int_equal(chdir(here), 0);
}

TESTS(unit_test(test_the_folder_of_a_name_is_flushed))

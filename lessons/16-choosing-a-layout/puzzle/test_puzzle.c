/* ranks: 1  device: cpu
 *
 * Three layouts, on two clusters of this folder. */
#define FOLDER "lessons/16-choosing-a-layout/puzzle/"
#define THE_PUZZLES \
    {"--model gpt3-1.3b --global-batch 64", FOLDER "pcie.ini", 8}, \
    {"--model llama2-13b --global-batch 128", FOLDER "four.ini", 64}, \
    {"--model gpt3-6.7b --global-batch 128", FOLDER "pcie.ini", 8}
#include "lessons/16-choosing-a-layout/puzzles.h"

TEST(test_puzzle_1_fits_and_is_fair) { fair(1); }
TEST(test_puzzle_1_is_as_good_as_the_planners) { good(1); }
TEST(test_puzzle_2_fits_and_is_fair) { fair(2); }
TEST(test_puzzle_2_is_as_good_as_the_planners) { good(2); }
TEST(test_puzzle_3_fits_and_is_fair) { fair(3); }
TEST(test_puzzle_3_is_as_good_as_the_planners) { good(3); }

/* Print the leaderboard's figure: the mean over the three puzzles of seconds relative to the planner's. Print nothing
 * unless all three layouts are possible and fit. */
static void say_figure(void) {
    static struct price x;
    double sum = 0;
    for (int i = 1; i <= N_PUZZLES; i++) {
        if (price_of_layout(i, &x) != OK || !x.fits) {
            status_clear();
            return;
        }
        sum += x.step_s / planners(i);
    }
    dprintf(STDERR_FILENO, "figure %.4f\n", sum / N_PUZZLES);
}

TEST(test_puzzle_3_beats_the_planner) {
    say_figure();
    check(3, 1, "it must be faster");
}

TESTS(unit_test(test_puzzle_1_fits_and_is_fair), unit_test(test_puzzle_1_is_as_good_as_the_planners),
      unit_test(test_puzzle_2_fits_and_is_fair), unit_test(test_puzzle_2_is_as_good_as_the_planners),
      unit_test(test_puzzle_3_fits_and_is_fair), unit_test(test_puzzle_3_is_as_good_as_the_planners),
      unit_test(test_puzzle_3_beats_the_planner))

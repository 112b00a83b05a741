#!/bin/bash
# Of tests/elastic.sh, what make check has in one other layout: copies over tensor, pipeline and data parallel ranks, and what is sent then.
ONLY='^(replicas_of_tp_are_left_out_whole|half_of_the_replicas_have_all_shards|copies_are_in_another_replica|stages_have_copies_too|two_at_once_that_are_no_neighbors|a_spare_sends_as_the_others_do|a_number_that_cannot_be_is_not_taken|a_replica_of_two_joins|who_leaves_another_host_is_relieved)$' \
    exec bash tests/elastic.sh

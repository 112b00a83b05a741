#!/bin/bash
# Of tests/elastic.sh, what make check has in one other layout, or of one other file: copies over tensor, pipeline and
# data parallel ranks and over connections, and what is sent then; a checkpoint instead of memory; what is removed
# meanwhile.
layouts='fewer_replicas_train_on|replicas_of_tp_are_left_out_whole|replicas_of_stages_are_left_out_whole'
layouts+='|half_of_the_replicas_have_all_shards'
copies='copies_are_in_another_replica|stages_have_copies_too|two_at_once_that_are_no_neighbors'
copies+='|neighbors_that_die_at_once_are_on_disk'
sent='over_connections_it_is_the_same|connections_that_are_cut_are_made_again|a_spare_sends_as_the_others_do'
sent+='|a_number_that_cannot_be_is_not_taken'
come='a_replica_of_two_joins|who_leaves_is_left_out|who_leaves_another_host_is_relieved'
files='its_data_are_removed|its_small_files_are_removed|who_comes_later_and_finds_no_data'
ONLY="^($layouts|$copies|$sent|$come|$files)$" exec bash tests/elastic.sh

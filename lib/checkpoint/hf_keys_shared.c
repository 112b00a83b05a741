#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/hf_keys.h"

/* Keys that transformers' common code reads from any model's config.json. Some of them are read only by older
 * versions. */

static const struct hf_key KEYS[] = {
    {"is_causal", HF_MUST, "true", "true", 0},                /* false: in a decoder, all tokens attend to all */
    {"torchscript", HF_MUST, "false", "false", 0},            /* true: a tied head is a copy */
    {"tie_encoder_decoder", HF_MUST, "false", "false", 0},
    {"pruned_heads", HF_MUST, "null", "null|{}", 0},
    {"per_layer_config", HF_MUST, "null", "null|{}", 0},
    {"auto_map", HF_MUST, "null", "null|{}", 0},              /* the model has its own code */
    {0},
};

/* Keys of features that import lacks: other weight formats and files, another config.json, sliding windows (in Mixtral;
 * in others, in generation). */
static const char NONE[] = "quantization_config compression_config transformers_weights configuration_files "
                           "layer_types fusion_config kv_sharing_modes num_kv_shared_layers sliding_window "
                           "attention_chunk_size text_config";

/* Keys about a task, generation, initial weights, dropout or the call. Because of
 * pad_token_id the reference does not train this token's row of the embedding; import says so (hf_tokens.c). */
static const char FREE[] =
    "architectures transformers_version dtype torch_dtype _pre_quantization_dtype use_bfloat16 tf_legacy_loss "
    "name_or_path _name_or_path _commit_hash is_decoder is_encoder_decoder add_cross_attention "
    "cross_attention_hidden_size return_dict use_return_dict output_hidden_states output_attentions use_cache "
    "chunk_size_feed_forward gradient_checkpointing "
    "attn_implementation _attn_implementation _attn_implementation_internal _attn_implementation_autoset "
    "experts_implementation _experts_implementation _experts_implementation_internal distributed_config "
    "id2label label2id num_labels problem_type finetuning_task task_specific_params classifier_dropout "
    "tokenizer_class prefix bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id "
    "initializer_range initializer_factor init_std attention_dropout tie_last_hidden_states "
    "max_length min_length do_sample early_stopping num_beams temperature top_k top_p typical_p repetition_penalty "
    "length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences "
    "output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values "
    "exponential_decay_length_penalty suppress_tokens begin_suppress_tokens epsilon_cutoff eta_cutoff "
    "encoder_repetition_penalty num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold "
    "assistant_lookbehind target_lookbehind num_beam_groups diversity_penalty";

const struct hf_keys hf_keys_shared = {KEYS, NONE, FREE};

#define AT(field) offsetof(struct checkpoint_model, field)
static const struct hf_key SIZES[] = {
    {"num_hidden_layers", HF_SIZE, NULL, NULL, AT(layers)},
    {"hidden_size", HF_SIZE, NULL, NULL, AT(hidden)},
    {"num_attention_heads", HF_SIZE, NULL, NULL, AT(heads)},
    {"max_position_embeddings", HF_SIZE, NULL, NULL, AT(seq)},
    {"vocab_size", HF_SIZE, NULL, NULL, AT(vocab)},
    {"intermediate_size", HF_SIZE, NULL, NULL, AT(ffn)},
    {0},
};
const struct hf_keys hf_keys_sizes = {SIZES, NULL, NULL};

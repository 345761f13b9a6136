// What a manifest says of the tiny encoders in the corpora.
#ifndef CAIRN_TESTS_FUZZ_BERT_TRAITS_H_
#define CAIRN_TESTS_FUZZ_BERT_TRAITS_H_

#include "engine/convert/bert_gguf.h"

namespace cairn::engine {

inline BertTraits FuzzTraits() {
  return {.name = "fuzz",
          .license = "none",
          .pooling = "mean",
          .context_length = 4,
          .num_heads = 2,
          .layer_norm_epsilon = 1e-12f,
          .query_prefix = "",
          .passage_prefix = ""};
}

}  // namespace cairn::engine

#endif  // CAIRN_TESTS_FUZZ_BERT_TRAITS_H_

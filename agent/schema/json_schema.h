// JsonSchema validates JSON texts against a schema of JSON Schema draft 2020-12.
//
// Keywords: type, enum, const, properties, required, additionalProperties, patternProperties,
// propertyNames, minProperties, maxProperties, dependentRequired, items, prefixItems, minItems,
// maxItems, uniqueItems, contains, minContains, maxContains, minLength, maxLength, pattern,
// minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, allOf, anyOf, oneOf, not, if,
// then, else, dependentSchemas, and $ref to "#" or a JSON pointer within the schema. Annotations
// (title, description, default, examples, format, $comment, ...) are accepted and assert nothing.
// Any other keyword is refused at Compile, so that a schema never asserts less than its author
// wrote.
//
// Patterns are RE2 (unanchored, as the standard says); one that RE2 cannot compile is refused.
// Lengths count code points. Numbers compare by value, integers exactly. Threads: thread-safe after
// Compile.
#ifndef CAIRN_AGENT_SCHEMA_JSON_SCHEMA_H_
#define CAIRN_AGENT_SCHEMA_JSON_SCHEMA_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cairn::agent {

struct SchemaViolation {
  std::string path;     // JSON pointer into the instance; "" is the whole
  std::string message;  // "must be an integer, not a string"; echoes at most a few dozen bytes of
                        // the instance
};

class JsonSchema {
 public:
  // INVALID_ARGUMENT names the place in the schema and the keyword at fault.
  static absl::StatusOr<std::unique_ptr<JsonSchema>> Compile(std::string_view schema_json);
  ~JsonSchema();

  // Violations in document order, at most `kMaxViolations`; empty = valid. INVALID_ARGUMENT when
  // `instance_json` is not one JSON text (duplicate keys and nesting deeper than `kMaxDepth` count
  // as that).
  absl::StatusOr<std::vector<SchemaViolation>> Validate(std::string_view instance_json) const;

  static constexpr int kMaxViolations = 8;
  static constexpr int kMaxDepth = 64;

 private:
  class Impl;
  explicit JsonSchema(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_SCHEMA_JSON_SCHEMA_H_

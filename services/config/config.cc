#include "services/config/config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/file.h"
#include "common/strings.h"
#include "services/config/keys.h"

namespace cairn::services {
namespace {

constexpr uint64_t kMaxConfigBytes = 1 << 20;

class Reader {
 public:
  Reader(std::string_view name, ServerConfig* config) : name_(name), config_(config) {}

  absl::Status Read(const YAML::Node& root) {
    if (root.IsNull()) return absl::OkStatus();  // an empty file changes nothing
    if (!root.IsMap()) return At(root, "a configuration is a map of keys");
    return ReadMap(root, "");
  }

 private:
  absl::Status At(const YAML::Node& node, std::string_view message) const {
    return absl::InvalidArgumentError(StrCat(name_, ":", node.Mark().line + 1, ": ", message));
  }

  absl::Status ReadMap(const YAML::Node& map, const std::string& prefix) {
    for (const auto& entry : map) {
      const YAML::Node &key_node = entry.first, &value = entry.second;
      if (!key_node.IsScalar()) return At(key_node, "a key must be a word");
      const std::string key = prefix + key_node.Scalar();
      if (!seen_.insert(key).second) return At(key_node, StrCat("key ", key, " is there twice"));
      if (const ConfigKey* known = FindConfigKey(key)) {
        CAIRN_RETURN_IF_ERROR(ReadValue(*known, key_node, value));
      } else if (IsGroup(key + ".")) {
        if (!value.IsMap()) return At(key_node, StrCat(key, " is a group of keys"));
        CAIRN_RETURN_IF_ERROR(ReadMap(value, key + "."));
      } else {
        return At(key_node, StrCat("unknown key ", key));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(const ConfigKey& key, const YAML::Node& key_node,
                         const YAML::Node& value) {
    std::vector<std::string> values;
    if (key.is_list) {
      if (!value.IsSequence()) return At(key_node, StrCat(key.name, " must be a list"));
      for (const YAML::Node& item : value) {
        if (!item.IsScalar()) return At(item, StrCat(key.name, " must be a list of words"));
        values.push_back(item.Scalar());
      }
    } else {
      if (!value.IsScalar()) return At(key_node, StrCat(key.name, " must be a single value"));
      values.push_back(value.Scalar());
    }
    const std::string problem = key.set(values, config_);
    return problem.empty() ? absl::OkStatus() : At(value, StrCat(key.name, " ", problem));
  }

  static bool IsGroup(const std::string& prefix) {
    return std::any_of(ConfigKeys().begin(), ConfigKeys().end(),
                       [&](const ConfigKey& key) { return key.name.rfind(prefix, 0) == 0; });
  }

  std::string name_;
  ServerConfig* config_;
  std::set<std::string> seen_;
};

bool IsLoopback(const std::string& address) {
  return address.rfind("127.", 0) == 0 || address.rfind("localhost:", 0) == 0 ||
         address.rfind("[::1]:", 0) == 0;
}

}  // namespace

bool ServerConfig::HasRole(std::string_view role) const {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

std::string ServerConfig::DataDir() const {
  return data_dir.empty() ? StrCat(CairnHome(), "/data") : data_dir;
}

absl::Status ReadConfigFile(const std::string& path, ServerConfig* config) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  return ReadConfigText(text, path, config);
}

absl::Status ReadConfigText(std::string_view yaml, std::string_view name, ServerConfig* config) {
  try {
    return Reader(name, config).Read(YAML::Load(std::string(yaml)));
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(StrCat(name, ":", e.mark.line + 1, ": ", e.msg));
  }
}

absl::Status ReadConfigEnvironment(const std::vector<std::string>& environment,
                                   ServerConfig* config) {
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string prefix = EnvironmentName(key) + "=";
    for (const std::string& entry : environment) {
      if (entry.rfind(prefix, 0) != 0) continue;
      const absl::Status status = SetConfigKey(key.name, entry.substr(prefix.size()), config);
      if (!status.ok()) return Annotate(status, EnvironmentName(key));
    }
  }
  return absl::OkStatus();
}

absl::Status SetConfigKey(std::string_view name, std::string_view value, ServerConfig* config) {
  const ConfigKey* key = FindConfigKey(name);
  if (key == nullptr) return absl::InvalidArgumentError(StrCat("unknown key ", name));
  std::vector<std::string> values = {std::string(value)};
  if (key->is_list) {
    values.clear();
    for (absl::string_view item : absl::StrSplit(ToAbsl(value), ',', absl::SkipWhitespace())) {
      values.emplace_back(absl::StripAsciiWhitespace(item));
    }
  }
  const std::string problem = key->set(values, config);
  return problem.empty() ? absl::OkStatus()
                         : absl::InvalidArgumentError(StrCat(name, " ", problem));
}

absl::Status CheckConfig(const ServerConfig& config) {
  if (config.roles.empty())
    return absl::InvalidArgumentError("roles is empty: there is nothing to do");
  const auto require = [&](std::string_view role, std::string_view needed,
                           const std::string& address) -> absl::Status {
    if (!config.HasRole(role) || config.HasRole(needed) || !address.empty())
      return absl::OkStatus();
    return absl::InvalidArgumentError(
        StrCat("role ", role, " needs role ", needed,
               ": add it to roles, or say where it is with addresses.", needed));
  };
  CAIRN_RETURN_IF_ERROR(require("retrieval", "inference", config.addresses.inference));
  CAIRN_RETURN_IF_ERROR(require("ingest", "inference", config.addresses.inference));
  CAIRN_RETURN_IF_ERROR(require("ingest", "retrieval", config.addresses.retrieval));
  CAIRN_RETURN_IF_ERROR(require("agent", "inference", config.addresses.inference));
  CAIRN_RETURN_IF_ERROR(require("agent", "retrieval", config.addresses.retrieval));
  CAIRN_RETURN_IF_ERROR(require("gateway", "inference", config.addresses.inference));
  CAIRN_RETURN_IF_ERROR(require("gateway", "agent", config.addresses.agent));
  if (config.HasRole("gateway") && config.http.api_key.empty() && !IsLoopback(config.http.listen)) {
    return absl::InvalidArgumentError(StrCat("http.listen ", config.http.listen,
                                             " can be reached from outside: set http.api_key"));
  }
  return absl::OkStatus();
}

std::string PrintConfig(const ServerConfig& config) {
  std::string out =
      "# Configuration of `cairn serve`. Every key may be left out; each also has an environment\n"
      "# variable (limits.max_uploads: CAIRN_LIMITS_MAX_UPLOADS) and can be set with --set "
      "KEY=VALUE.\n";
  std::string group;
  for (const ConfigKey& key : ConfigKeys()) {
    const size_t dot = key.name.find('.');
    const std::string own_group = dot == std::string::npos ? "" : key.name.substr(0, dot);
    const std::string indent = own_group.empty() ? "" : "  ";
    if (own_group != group) StrAppend(&out, "\n", own_group, ":\n");
    group = own_group;
    if (!key.doc.empty())
      StrAppend(&out, own_group.empty() ? "\n" : "", indent, "# ", key.doc, "\n");
    const std::string value = key.print(config);
    StrAppend(&out, indent, own_group.empty() ? key.name : key.name.substr(dot + 1), ": ",
              key.is_secret && value != "\"\"" ? "\"********\"" : value, "\n");
  }
  return out;
}

}  // namespace cairn::services

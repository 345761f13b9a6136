// The table of configuration keys; internal to services/config.
#ifndef CAIRN_SERVICES_CONFIG_KEYS_H_
#define CAIRN_SERVICES_CONFIG_KEYS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "services/config/config.h"

namespace cairn::services {

struct ConfigKey {
  std::string name;  // "limits.max_uploads"
  std::string doc;
  bool is_list = false;
  bool is_secret = false;
  // The value as YAML.
  std::function<std::string(const ServerConfig&)> print;
  // Sets it from scalars (one, unless is_list); returns what is wrong with them, or "".
  std::function<std::string(const std::vector<std::string>&, ServerConfig*)> set;
};

const std::vector<ConfigKey>& ConfigKeys();
const ConfigKey* FindConfigKey(std::string_view name);
// "CAIRN_LIMITS_MAX_UPLOADS".
std::string EnvironmentName(const ConfigKey& key);

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_CONFIG_KEYS_H_

// deploy/models.json, made part of the program when it is built.
#ifndef CAIRN_SERVICES_MODELS_MANIFEST_H_
#define CAIRN_SERVICES_MODELS_MANIFEST_H_

#include <string_view>

namespace cairn::services {

extern const std::string_view kModelManifest;

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_MODELS_MANIFEST_H_

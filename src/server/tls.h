// The certificate and key that the server shows, and how it speaks TLS.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "config/settings.h"
#include "core/error.h"

namespace met::server {

/// Reads --tls-cert (a PEM chain, the server's own certificate first) and --tls-key (a PEM key without a passphrase).
/// Null where neither is given: plain HTTP. TLS 1.2 and 1.3, ALPN http/1.1. Errors, naming the flag: one without the
/// other, a file that cannot be read or is no such PEM, a key of another certificate.
Result<std::unique_ptr<boost::asio::ssl::context>> open_tls(const config::Settings& settings);

}  // namespace met::server

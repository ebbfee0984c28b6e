#include "server/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "core/concat.h"
#include "core/log.h"
#include "server/secret_file.h"

namespace met::server {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr const char* kCert = "--tls-cert";
constexpr const char* kKey = "--tls-key";

Result<std::string> read_pem(const std::string& path, const char* flag) {
  std::error_code ignored;
  const bool directory =
      std::filesystem::is_directory(path, ignored);  // it opens, and throws when it is read
  std::ifstream file(directory ? "" : path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.view().empty()) return fail(ErrorCode::kIo, concat("cannot read '", path, "'"), flag);
  return std::move(text).str();
}

/// The one protocol that is spoken here; a client that offers others alone is told so (RFC 7301, section 3.2).
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_length, const unsigned char* offered,
                    unsigned offered_length, void*) {
  static constexpr unsigned char kHttp[] = "\x08http/1.1";
  auto* chosen = const_cast<unsigned char*>(*out);
  const int found =
      SSL_select_next_proto(&chosen, out_length, kHttp, sizeof kHttp - 1, offered, offered_length);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void warn_of_dates(const ssl::context& context) {
  const X509* own = SSL_CTX_get0_certificate(const_cast<ssl::context&>(context).native_handle());
  if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0)
    log::warn("the certificate of --tls-cert is not valid yet");
  if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0)
    log::warn("the certificate of --tls-cert has expired");
}

}  // namespace

Result<std::unique_ptr<ssl::context>> open_tls(const config::Settings& s) {
  if (s.tls_cert.empty() && s.tls_key.empty()) return nullptr;
  if (s.tls_cert.empty()) return invalid(kKey, "a key needs its certificate too: add --tls-cert");
  if (s.tls_key.empty()) return invalid(kCert, "a certificate needs its key too: add --tls-key");
  // The same everywhere: no module or policy of the machine's own OpenSSL is read.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  MET_ASSIGN(const std::string cert, read_pem(s.tls_cert, kCert));
  MET_ASSIGN(const std::string key, read_pem(s.tls_key, kKey));
  warn_if_others_read(s.tls_key, kKey);

  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  error_code code;
  context->use_certificate_chain(boost::asio::buffer(cert), code);
  if (code) return invalid(kCert, concat("'", s.tls_cert, "' holds no PEM certificate: ", code.message()));
  bool encrypted = false;
  context->set_password_callback([&encrypted](std::size_t, ssl::context::password_purpose) {
    encrypted = true;
    return std::string();
  });
  // OpenSSL compares the key with the certificate as it takes it.
  context->use_private_key(boost::asio::buffer(key), ssl::context::pem, code);
  if (encrypted)
    return invalid(kKey, concat("'", s.tls_key, "' is encrypted: a key without a passphrase is needed"));
  if (code.value() != 0 && ERR_GET_LIB(static_cast<unsigned long>(code.value())) == ERR_LIB_X509)
    return invalid(kKey, concat("'", s.tls_key, "' is not the key of the certificate '", s.tls_cert, "'"));
  if (code) return invalid(kKey, concat("'", s.tls_key, "' holds no PEM key: ", code.message()));
  warn_of_dates(*context);
  return context;
}

}  // namespace met::server

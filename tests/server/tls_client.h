// Certificates made on the spot, and a client that speaks TLS.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "tests/server/client.h"

namespace met::testing {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* what) const {
    Free(what);
  }
};

/// A self-signed certificate for 127.0.0.1 and its key, in PEM files that go with it.
class Certificate {
 public:
  explicit Certificate(const std::string& stem, long valid_s = 3600, const char* passphrase = nullptr)
      : cert(stem + ".crt"), key(stem + ".key") {
    const std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> pair(EVP_EC_gen("P-256"));
    const std::unique_ptr<X509, Freed<X509_free>> x(X509_new());
    X509_set_version(x.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x.get()), -7200);
    X509_gmtime_adj(X509_getm_notAfter(x.get()), valid_s);
    X509_set_pubkey(x.get(), pair.get());
    X509_NAME* name = X509_get_subject_name(x.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("127.0.0.1"),
                               -1, -1, 0);
    X509_set_issuer_name(x.get(), name);
    X509_EXTENSION* names = X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(x.get(), names, -1);
    X509_EXTENSION_free(names);
    X509_sign(x.get(), pair.get(), EVP_sha256());
    write(cert, [&](std::FILE* out) { PEM_write_X509(out, x.get()); });
    write(key, [&](std::FILE* out) {
      PEM_write_PKCS8PrivateKey(out, pair.get(), passphrase == nullptr ? nullptr : EVP_aes_128_cbc(), nullptr,
                                0, nullptr, const_cast<char*>(passphrase));
    });
  }
  ~Certificate() {
    std::remove(cert.c_str());
    std::remove(key.c_str());
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;

  const std::string cert;
  const std::string key;

 private:
  template <class Work>
  static void write(const std::string& path, Work work) {
    std::FILE* out = std::fopen(path.c_str(), "wb");
    work(out);
    std::fclose(out);
  }
};

/// Trusts one certificate alone.
class TlsClient final : public Client {
 public:
  struct Options {
    int version = 0;  ///< the only one that it speaks; 0: any
    std::string alpn = "\x08http/1.1";
  };

  explicit TlsClient(int port, const Certificate& trusted) : TlsClient(port, trusted, {}) {}
  TlsClient(int port, const Certificate& trusted, const Options& options, int timeout_s = 5)
      : Client(port, timeout_s), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX* context = context_.get();
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_file(context, trusted.cert.c_str());
    SSL_CTX_set_security_level(context, 0);  // so that versions of old can be offered
    SSL_CTX_set_min_proto_version(context, options.version);
    SSL_CTX_set_max_proto_version(context, options.version);
    SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(options.alpn.data()),
                            static_cast<unsigned>(options.alpn.size()));
    ssl_.reset(SSL_new(context));
    SSL_set_fd(ssl_.get(), socket());
    open_ = SSL_connect(ssl_.get()) == 1;
  }

  bool open() const { return open_; }
  SSL* ssl() const { return ssl_.get(); }
  /// The server has said that it ended, not just gone.
  bool told_of_end() const { return (SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0; }
  void send_close_notify() const { SSL_shutdown(ssl_.get()); }
  std::string protocol() const {
    const unsigned char* name = nullptr;
    unsigned length = 0;
    SSL_get0_alpn_selected(ssl_.get(), &name, &length);
    return {reinterpret_cast<const char*>(name), length};
  }

 protected:
  ssize_t write_bytes(const char* bytes, std::size_t size) const override {
    return SSL_write(ssl_.get(), bytes, static_cast<int>(size));
  }
  ssize_t read_bytes(char* bytes, std::size_t size) override {
    const int n = SSL_read(ssl_.get(), bytes, static_cast<int>(size));
    if (n > 0) return n;
    return SSL_get_error(ssl_.get(), n) == SSL_ERROR_SYSCALL && errno == EAGAIN ? -1 : 0;
  }

 private:
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Freed<SSL_free>> ssl_;
  bool open_ = false;
};

}  // namespace met::testing

# Sourced by the start scripts of this folder: fail, and certificates for a server that was brought none.

readonly DAYS_OF_CERTIFICATE=3650

fail() { # status, message
    printf '%s: %s\n' "${0##*/}" "$2" >&2
    exit "$1"
}

make_certificates() { # folder, names as in "DNS:localhost,IP:127.0.0.1": an authority and one server certificate
    [ -s "$1/cert.pem" ] && return 0
    command -v openssl >/dev/null || fail 69 "openssl is not installed, and $1 holds no certificate"
    (
        cd "$1"
        openssl ecparam -name prime256v1 -genkey -noout -out ca.key
        openssl req -x509 -new -key ca.key -days "$DAYS_OF_CERTIFICATE" -subj "/CN=mqdssm test authority" \
            -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -out ca.pem
        openssl ecparam -name prime256v1 -genkey -noout -out key.pem
        openssl req -new -key key.pem -subj "/CN=localhost" -out cert.csr
        printf 'basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=%s\n' "$2" >cert.ext
        openssl x509 -req -in cert.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days "$DAYS_OF_CERTIFICATE" \
            -extfile cert.ext -out cert.new
        mv cert.new cert.pem
        rm -f cert.csr cert.ext ca.key ca.srl # nobody can sign a second certificate
    ) >"$1/openssl.log" 2>&1 || { cat "$1/openssl.log" >&2; fail 70 "openssl made no certificate"; }
}

#!/bin/sh
# Makes a domain, or starts a domain controller of one in the foreground: the process becomes samba.
#
#   samba-dc.sh provision   make the domain that controllers start with, unless it is there (5 s)
#   samba-dc.sh             start a controller with a copy of it, or with what its folder holds (0.2 s)
#
# The same script serves the private server of mqdssm.testing.SambaDomainController and the container image
# docker/samba-dc. It needs root. Settings are environment variables:
#
#   MSMQ_SAMBA_TEMPLATE      folder of the domain as it was made                 /usr/local/share/samba-dc/domain
#   MSMQ_SAMBA_REALM         the domain's DNS name, in capitals                  CONTOSO.TEST
#   MSMQ_SAMBA_DOMAIN        the domain's NetBIOS name                           CONTOSO
#   MSMQ_SAMBA_HOST          the controller's name                               DC1
#   MSMQ_SAMBA_DIR           folder of the controller; one at a time             /var/lib/samba-dc
#   MSMQ_SAMBA_ADDRESS       loopback address that alone is listened on          (all addresses)
#   MSMQ_SAMBA_SERVICES      samba's "server services"                           ldap
#   MSMQ_SAMBA_STRONG_AUTH   yes, allow_sasl_over_tls or no                      yes
#   MSMQ_SAMBA_TLS_NAMES     names in a certificate that is made here            DNS:localhost,IP:127.0.0.1
#   MSMQ_SAMBA_NEW_PASSWORD  yes: the administrator gets a password of his own   no
#
# The administrator's password is in DIR/password, the authority's certificate in DIR/tls/ca.pem.
# Exit status 64: a setting that cannot be used, 69: software missing, 75: another server has the folder.
set -eu
umask 077

TEMPLATE=${MSMQ_SAMBA_TEMPLATE:-/usr/local/share/samba-dc/domain}
REALM=${MSMQ_SAMBA_REALM:-CONTOSO.TEST}
DOMAIN=${MSMQ_SAMBA_DOMAIN:-CONTOSO}
HOST=${MSMQ_SAMBA_HOST:-DC1}
DIR=${MSMQ_SAMBA_DIR:-/var/lib/samba-dc}
ADDRESS=${MSMQ_SAMBA_ADDRESS:-}
SERVICES=${MSMQ_SAMBA_SERVICES:-ldap}
STRONG_AUTH=${MSMQ_SAMBA_STRONG_AUTH:-yes}
TLS_NAMES=${MSMQ_SAMBA_TLS_NAMES:-DNS:localhost,IP:127.0.0.1}
NEW_PASSWORD=${MSMQ_SAMBA_NEW_PASSWORD:-no}
SYSTEM_PYTHON=/usr/bin/python3 # the one that Samba's modules are installed for

PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin:/usr/local/samba/sbin:/usr/local/samba/bin
. "${0%/*}/certificates.sh" # fail, make_certificates

check_settings() {
    for name in "$REALM" "$DOMAIN" "$HOST" "$ADDRESS" "$STRONG_AUTH"; do
        case "$name" in *[!A-Za-z0-9._-]*) fail 64 "'$name' holds a character that no name has" ;; esac
    done
    case "$SERVICES" in *[!a-z\ ]*) fail 64 "MSMQ_SAMBA_SERVICES: '$SERVICES'" ;; esac
    case "$TEMPLATE$DIR" in
        *['"\'%]* | *'
'*) fail 64 "a folder's name must not hold quotes, backslashes, percent signs or line ends" ;;
    esac
    for program in samba samba-tool flock; do
        command -v "$program" >/dev/null \
            || fail 69 "$program is not installed (Debian: samba-ad-dc, samba-ad-provision, util-linux)"
    done
}

new_password() { # with the kinds of characters that a domain asks for
    printf 'Aa1.'
    head -c 18 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n'
}

write_settings() { # folder of the controller
    cat <<END
# written by samba-dc.sh at every start
[global]
netbios name = $HOST
realm = $REALM
workgroup = $DOMAIN
server role = active directory domain controller
server services = $(printf '%s' "$SERVICES" | sed 's/  */, /g')
dcerpc endpoint servers = epmapper, drsuapi, lsarpc, samr, netlogon
ldap server require strong auth = $STRONG_AUTH
tls enabled = yes
tls certfile = $1/tls/cert.pem
tls keyfile = $1/tls/key.pem
tls cafile = $1/tls/ca.pem
tls dh params file = $1/tls/dh.pem
private dir = $1/private
state directory = $1/state
cache directory = $1/cache
lock directory = $1/run/locks
pid directory = $1/run
ncalrpc dir = $1/run/ncalrpc
winbindd socket directory = $1/run/winbindd
ntp signd socket directory = $1/run/ntp_signd
binddns dir = $1/bind-dns
posix:eadb = $1/eadb.tdb
ldb:nosync = true
logging = file
log file = $1/log.%m
load printers = no
disable spoolss = yes
END
    [ -z "$ADDRESS" ] || printf 'interfaces = %s/8\nbind interfaces only = yes\n' "$ADDRESS"
    printf '[sysvol]\npath = %s/state/sysvol\nread only = no\n' "$1"
    printf '[netlogon]\npath = %s/state/sysvol\nread only = no\n' "$1"
}

write_dh_parameters() { # ffdhe2048 of RFC 7919: samba would look for primes of its own at every start
    cat <<END
-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
END
}

prepare_accounts() { # settings, database, file of the password: what a controller of Windows has and samba adds later
    "$SYSTEM_PYTHON" - "$@" <<'END'
import sys

import ldb
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB

settings, database, password = sys.argv[1:]
lp = LoadParm()
lp.load(settings)
sam = SamDB(url=database, session_info=system_session(lp), lp=lp)
with open(password) as file:
    sam.setpassword("(sAMAccountName=Administrator)", file.read())
host, realm = lp.get("netbios name"), lp.get("realm").lower()
full_name = f"{host.lower()}.{realm}"


def change(account, operation, attribute, values):
    (found,) = sam.search(expression=f"(sAMAccountName={account})", attrs=[attribute])
    held = {str(value).lower() for value in found.get(attribute, [])}
    missing = [value for value in values if value.lower() not in held]
    if missing:
        message = ldb.Message(found.dn)
        message[attribute] = ldb.MessageElement(missing, operation, attribute)
        sam.modify(message)


# the password of a domain that is kept for months must not expire: NORMAL_ACCOUNT, DONT_EXPIRE_PASSWD
change("Administrator", ldb.FLAG_MOD_REPLACE, "userAccountControl", [str(0x10200)])
names = [f"ldap/{full_name}", f"ldap/{host}", f"ldap/{full_name}/{realm}", f"GC/{full_name}/{realm}"]
change(f"{host}$", ldb.FLAG_MOD_ADD, "servicePrincipalName", names)
END
}

provision() {
    exec 9>"$TEMPLATE.lock"
    flock 9
    [ -e "$TEMPLATE/done" ] && return 0
    new=$TEMPLATE.new
    rm -rf "$TEMPLATE" "$new"
    mkdir -p "$new/tls"
    printf '[global]\n' >"$new/empty.conf"
    # the administrator's password that this makes up and prints is replaced below
    samba-tool domain provision -q -s "$new/empty.conf" --realm "$REALM" --domain "$DOMAIN" --host-name "$HOST" \
        --server-role=dc --dns-backend=NONE --host-ip 127.0.0.1 --targetdir "$new" --plaintext-secrets \
        --option=ldb:nosync=true "--option=posix:eadb=$new/eadb.tdb" >"$new/provision.log" 2>&1 \
        || { cat "$new/provision.log" >&2; fail 70 "samba-tool made no domain"; }
    write_settings "$new" >"$new/etc/smb.conf"
    new_password >"$new/password"
    prepare_accounts "$new/etc/smb.conf" "$new/private/sam.ldb" "$new/password"
    # only these two are needed to answer LDAP and Kerberos
    mkdir "$new.kept"
    rm -rf "$new/private/tls" "$new/private/ldapi" "$new/private/ldap_priv"
    mv "$new/private" "$new/password" "$new.kept"
    : >"$new.kept/done"
    rm -rf "$new"
    mv "$new.kept" "$TEMPLATE"
}

take_copy() { # once; a first start that was cut short begins again
    [ -e "$DIR/private" ] && return 0
    [ -e "$TEMPLATE/done" ] || fail 64 "$TEMPLATE holds no domain: run '$0 provision'"
    rm -rf "$DIR/private.new"
    cp -a "$TEMPLATE/private" "$DIR/private.new"
    cp -a "$TEMPLATE/password" "$DIR/password"
    if [ "$NEW_PASSWORD" = yes ]; then
        new_password >"$DIR/password"
        prepare_accounts "$DIR/etc/smb.conf" "$DIR/private.new/sam.ldb" "$DIR/password"
    fi
    mv "$DIR/private.new" "$DIR/private"
}

check_settings
case "${1:-run}" in
    provision)
        mkdir -p "$(dirname "$TEMPLATE")"
        rm -rf "$TEMPLATE.new.kept"
        provision
        exit 0
        ;;
    run) ;;
    *) fail 64 "usage: $0 [provision]" ;;
esac
for folder in etc tls run/locks state/sysvol cache bind-dns; do mkdir -p "$DIR/$folder"; done
# samba keeps descriptor 9, so the folder is taken as long as any controller serves it
exec 9>"$DIR/lock"
flock -n 9 || fail 75 "$DIR is in use by another server"
make_certificates "$DIR/tls" "$TLS_NAMES" # the embedded server brings its own
write_dh_parameters >"$DIR/tls/dh.pem"
write_settings "$DIR" >"$DIR/etc/smb.conf"
take_copy
# not -i: that one ends with its standard input, which a container does not have
exec samba -F -M single --debug-stdout -s "$DIR/etc/smb.conf"

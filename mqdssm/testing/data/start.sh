#!/bin/sh
# Starts an OpenLDAP server with the MSMQ schema in the foreground: the process becomes slapd.
#
# The same script serves the private server of mqdssm.testing.OpenLdapServer and the container image
# docker/openldap-msmq. What the folder lacks (configuration, password, certificates, base tree) is made;
# what it holds is kept, so a second start serves the same directory. Settings are environment variables:
#
#   MSMQ_LDAP_DIR            folder of the server; one server at a time          /var/lib/openldap-msmq
#   MSMQ_LDAP_SHARE          folder of msmq.schema, mqis.schema, base-tree.ldif  /usr/local/share/openldap-msmq
#   MSMQ_LDAP_SUFFIX         the root, dc=... only                               dc=example,dc=com
#   MSMQ_LDAP_PASSWORD_FILE  password of cn=admin,<suffix>; made when missing    DIR/password
#   MSMQ_LDAP_ADDRESS        address that is listened on; on any but loopback    127.0.0.1
#                            passwords are taken over TLS alone
#   MSMQ_LDAP_PORT           ldap (StartTLS is offered)                          389
#   MSMQ_LDAPS_PORT          ldaps                                               636
#   MSMQ_LDAP_SOCKET         socket for ldapi, below 100 bytes                   DIR/run/ldapi
#   MSMQ_LDAP_TLS_NAMES      names in a certificate that is made here            DNS:localhost,IP:127.0.0.1
#   MSMQ_LDAP_DURABLE        yes: every write is on disk when it is answered     yes
#   MSMQ_LDAP_OVERLAYS       any of: unique deref syncprov accesslog             unique deref syncprov
#   MSMQ_LDAP_REPLICATION    yes: also mqis.schema, for the replication store    no
#   MSMQ_LDAP_IDLE_TIMEOUT   seconds until a silent client is cut off, 0: never  0
#   MSMQ_LDAP_SIZE_LIMIT     entries that one unpaged search may return          unlimited
#   MSMQ_LDAP_MAX_BYTES      the largest the database may grow                   17179869184 (16 GiB)
#   MSMQ_LDAP_RUN_AS         user of slapd, where this script runs as root       (unchanged)
#
# Exit status 64: a setting that cannot be used, 69: software missing, 75: another server has the folder.
set -eu
umask 077

DIR=${MSMQ_LDAP_DIR:-/var/lib/openldap-msmq}
SHARE=${MSMQ_LDAP_SHARE:-/usr/local/share/openldap-msmq}
SUFFIX=${MSMQ_LDAP_SUFFIX:-dc=example,dc=com}
PASSWORD_FILE=${MSMQ_LDAP_PASSWORD_FILE:-$DIR/password}
ADDRESS=${MSMQ_LDAP_ADDRESS:-127.0.0.1}
PORT=${MSMQ_LDAP_PORT:-389}
TLS_PORT=${MSMQ_LDAPS_PORT:-636}
SOCKET=${MSMQ_LDAP_SOCKET:-$DIR/run/ldapi}
TLS_NAMES=${MSMQ_LDAP_TLS_NAMES:-DNS:localhost,IP:127.0.0.1}
DURABLE=${MSMQ_LDAP_DURABLE:-yes}
OVERLAYS=${MSMQ_LDAP_OVERLAYS-unique deref syncprov}
REPLICATION=${MSMQ_LDAP_REPLICATION:-no}
IDLE_TIMEOUT=${MSMQ_LDAP_IDLE_TIMEOUT:-0}
SIZE_LIMIT=${MSMQ_LDAP_SIZE_LIMIT:-unlimited}
MAX_BYTES=${MSMQ_LDAP_MAX_BYTES:-17179869184}
RUN_AS=${MSMQ_LDAP_RUN_AS:-}
LOG_MAX_BYTES=4294967296 # accesslog: 4 GiB
OPEN_FILES_MAX=4096      # slapd's tables grow with the limit; container engines set a million

PATH=$PATH:/usr/sbin:/usr/local/sbin:/usr/libexec:/usr/local/libexec:/opt/homebrew/opt/openldap/libexec
PATH=$PATH:/opt/homebrew/opt/openldap/sbin:/usr/local/opt/openldap/libexec:/usr/local/opt/openldap/sbin

. "${0%/*}/certificates.sh" # fail, make_certificates

first_of() { # the first of the paths that exists
    for candidate; do
        [ -e "$candidate" ] && { printf '%s' "$candidate"; return 0; }
    done
    return 1
}

has_overlay() { case " $OVERLAYS " in *" $1 "*) return 0 ;; *) return 1 ;; esac }

check_settings() {
    case "$SUFFIX" in
        *[!A-Za-z0-9=,-]*) suffix_is_good=no ;; # a line end, too, which grep would not see
        *) printf '%s' "$SUFFIX" | grep -Eqx 'dc=[A-Za-z0-9-]+(,dc=[A-Za-z0-9-]+)*' \
            && suffix_is_good=yes || suffix_is_good=no ;;
    esac
    [ "$suffix_is_good" = yes ] || fail 64 "MSMQ_LDAP_SUFFIX must be like dc=example,dc=com, not '$SUFFIX'"
    case "$DIR$SHARE$SOCKET" in
        *['"\']* | *'
'*) fail 64 "a folder's name must not hold quotes, backslashes or line ends" ;;
    esac
    for number in "$PORT" "$TLS_PORT" "$IDLE_TIMEOUT" "$MAX_BYTES"; do
        case "$number" in '' | *[!0-9]*) fail 64 "'$number' is no number" ;; esac
    done
    case "$SIZE_LIMIT" in unlimited) ;; '' | *[!0-9]*) fail 64 "MSMQ_LDAP_SIZE_LIMIT: '$SIZE_LIMIT'" ;; esac
    case "$DURABLE" in yes | no) ;; *) fail 64 "MSMQ_LDAP_DURABLE must be yes or no" ;; esac
    case "$REPLICATION" in yes | no) ;; *) fail 64 "MSMQ_LDAP_REPLICATION must be yes or no" ;; esac
    for overlay in $OVERLAYS; do
        case "$overlay" in
            unique | deref | syncprov | accesslog) ;;
            *) fail 64 "MSMQ_LDAP_OVERLAYS knows no '$overlay'" ;;
        esac
    done
    for file in "$SHARE/msmq.schema" "$SHARE/base-tree.ldif"; do
        [ -r "$file" ] || fail 64 "$file is missing"
    done
    [ "$REPLICATION" = no ] || [ -r "$SHARE/mqis.schema" ] || fail 64 "$SHARE/mqis.schema is missing"
}

find_software() {
    for program in slapd slapadd slappasswd flock; do
        command -v "$program" >/dev/null || fail 69 "$program is not installed (Debian: slapd, util-linux)"
    done
    SCHEMA=$(first_of /etc/ldap/schema /etc/openldap/schema /opt/homebrew/etc/openldap/schema \
        /usr/local/etc/openldap/schema) || fail 69 "OpenLDAP's core.schema was not found"
    MODULES=$(first_of /usr/lib/ldap /usr/lib64/openldap /usr/lib/openldap \
        /opt/homebrew/opt/openldap/libexec/openldap /usr/local/libexec/openldap) || MODULES=
}

module() { # a moduleload line, unless it is compiled in
    if [ -n "$MODULES" ] && first_of "$MODULES/$1".* >/dev/null; then echo "moduleload $1"; fi
}

make_password() {
    [ -s "$PASSWORD_FILE" ] || head -c 18 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n' >"$PASSWORD_FILE"
    tr -d '\n' <"$PASSWORD_FILE" >"$DIR/conf/password.bare"
    HASH=$(slappasswd -n -T "$DIR/conf/password.bare")
    rm -f "$DIR/conf/password.bare"
}

write_root_dse() {
    cat >"$DIR/conf/rootdse.ldif" <<END
dn:
defaultNamingContext: $SUFFIX
rootDomainNamingContext: $SUFFIX
configurationNamingContext: CN=Configuration,$SUFFIX
schemaNamingContext: CN=Schema,CN=Configuration,$SUFFIX
END
}

write_log_database() {
    cat <<END
database  mdb
suffix    cn=log
rootdn    "cn=admin,$SUFFIX"
directory "$DIR/log"
maxsize   $LOG_MAX_BYTES
index     objectClass,reqStart,reqEnd,reqResult,entryCSN,reqDN,reqEntryUUID eq
END
    [ "$DURABLE" = yes ] || echo "envflags  nosync"
    has_overlay syncprov || return 0
    cat <<END
overlay   syncprov
syncprov-nopresent TRUE
syncprov-reloadhint TRUE
END
}

write_overlays() {
    if has_overlay unique; then printf 'overlay   unique\nunique_uri ldap:///?objectGUID?sub?\n'; fi
    if has_overlay syncprov; then
        printf 'overlay   syncprov\nsyncprov-checkpoint 100 10\n'
        if has_overlay accesslog; then echo 'syncprov-sessionlog-source cn=log'; else echo 'syncprov-sessionlog 10000'; fi
    fi
    if has_overlay accesslog; then
        cat <<END
overlay   accesslog
logdb     cn=log
logops    writes
logsuccess TRUE
logold    (objectClass=mSMQQueue)
logpurge  07+00:00 01+00:00
END
    fi
    if has_overlay deref; then echo 'overlay   deref'; fi
}

write_main_database() {
    cat <<END
database  mdb
suffix    "$SUFFIX"
rootdn    "cn=admin,$SUFFIX"
rootpw    $HASH
directory "$DIR/db"
maxsize   $MAX_BYTES
limits    users size.prtotal=unlimited
access to attrs=userPassword by self =xw by anonymous auth by * none
access to * by group/group/member.exact="CN=MSMQ Admins,CN=Users,$SUFFIX" write by users read by * none
index     objectClass,entryUUID,entryCSN,cn eq
index     objectGUID,objectSid,mSMQQueueType,mSMQLabelEx,mSMQOwnerID,mSMQQMID,mSMQDigests eq
END
    # sequence numbers are looked up by bucket; an index of the numbers themselves would take seconds
    if [ "$REPLICATION" = yes ]; then
        echo 'index     mqisPartitionID,mqisBucket,mqisPathName,mqisObjectID,mqisUserID,mqisDeletedID eq'
        # what refers to an object that was not there is looked up when it comes
        echo 'index     mSMQSite1,mSMQSite2,mSMQSiteGates,mSMQOutRoutingServers,mSMQInRoutingServers eq'
    fi
    [ "$DURABLE" = yes ] || echo "envflags  nosync"
    write_overlays
}

write_configuration() {
    cat <<END
# written by start.sh at every start
include   "$SCHEMA/core.schema"
include   "$SHARE/msmq.schema"
$([ "$REPLICATION" = no ] || echo "include   \"$SHARE/mqis.schema\"")
pidfile   "$DIR/run/slapd.pid"
argsfile  "$DIR/run/slapd.args"
END
    if [ -n "$MODULES" ]; then echo "modulepath \"$MODULES\""; fi
    for name in back_mdb $OVERLAYS; do module "$name"; done
    cat <<END
loglevel  0
sizelimit $SIZE_LIMIT
conn_max_pending_auth 5000
idletimeout $IDLE_TIMEOUT
writetimeout 60
password-hash {SSHA}
rootDSE   "$DIR/conf/rootdse.ldif"
TLSCACertificateFile  "$DIR/tls/ca.pem"
TLSCertificateFile    "$DIR/tls/cert.pem"
TLSCertificateKeyFile "$DIR/tls/key.pem"
$(case $ADDRESS in (127.*) ;; (*) echo "security simple_bind=64" ;; esac)
authz-regexp "gidNumber=$(id -g)\\\\+uidNumber=$(id -u),cn=peercred,cn=external,cn=auth" "cn=admin,$SUFFIX"
access to dn.base="" by * read
access to dn.base="cn=Subschema" by * read
END
    if has_overlay accesslog; then write_log_database; fi
    write_main_database
}

base_tree() { # for this suffix, with objectGUIDs of its own: 21 and a bit characters are 16 bytes
    chance=$(head -c 3000 /dev/urandom | base64 | tr -d '\n')
    first=${SUFFIX#*=}
    sed "s/[dD][cC]=example,[dD][cC]=com/$SUFFIX/g" "$SHARE/base-tree.ldif" | awk -v chance="$chance" -v dc="${first%%,*}" '
        /^objectGUID::/ { print "objectGUID:: " substr(chance, 1 + 21 * count++, 21) "A=="; next }
        /^dc: / { print "dc: " dc; next }
        { print }'
}

make_base_tree() { # once; a first start that was cut short begins again
    [ -e "$DIR/base-tree.done" ] && return 0
    rm -rf "$DIR/db" "$DIR/log"
    mkdir -p "$DIR/db" "$DIR/log"
    base_tree >"$DIR/conf/base-tree.ldif"
    slapadd -q -f "$DIR/conf/slapd.conf" -b "$SUFFIX" -l "$DIR/conf/base-tree.ldif"
    : >"$DIR/base-tree.done"
}

percent() { printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g'; }

check_settings
find_software
mkdir -p "$DIR" "$DIR/conf" "$DIR/run" "$DIR/tls"
# slapd keeps descriptor 9, so the folder is taken as long as any slapd serves it
exec 9>"$DIR/lock"
flock -n 9 || fail 75 "$DIR is in use by another server"
files=$(ulimit -n)
if [ "$files" = unlimited ] || [ "$files" -gt "$OPEN_FILES_MAX" ]; then ulimit -n "$OPEN_FILES_MAX"; fi
make_password
make_certificates "$DIR/tls" "$TLS_NAMES" # the embedded server brings its own
write_root_dse
write_configuration >"$DIR/conf/slapd.conf"
make_base_tree
rm -f "$SOCKET" # of a server that was killed; the lock says that there is none
if [ -n "$RUN_AS" ]; then
    chown -R "$RUN_AS" "$DIR"
    set -- -u "$RUN_AS" "$@"
fi
# `-d none` keeps it in the foreground and puts errors of the configuration on stderr
exec slapd "$@" -d none -f "$DIR/conf/slapd.conf" \
    -h "ldap://$ADDRESS:$PORT/ ldaps://$ADDRESS:$TLS_PORT/ ldapi://$(percent "$SOCKET")/"

# Read by backup and restore. find_address sets `address`, without its password: that goes through the environment,
# because everybody on the machine can read the arguments of a process.
find_address() {
    if [ -n "${DATABASE_URL_FILE:-}" ]; then
        DATABASE_URL=$(cat "$DATABASE_URL_FILE") || return 1
    fi
    if [ -z "${DATABASE_URL:-}" ]; then
        echo "Set DATABASE_URL, or DATABASE_URL_FILE to a file that contains it." >&2
        return 1
    fi
    address=$DATABASE_URL
    # A password with percent signs is encoded, and stays in the address for libpq to decode.
    password=$(printf '%s' "$address" | sed -n 's|^[a-z]*://[^:/@]*:\([^@%]*\)@.*|\1|p')
    if [ -n "$password" ]; then
        PGPASSWORD=$password
        export PGPASSWORD
        address=$(printf '%s' "$address" | sed 's|://\([^:/@]*\):[^@]*@|://\1@|')
    fi
}

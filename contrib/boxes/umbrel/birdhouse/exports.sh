# The dashboard, the explorer and the listeners for wallets have one address, and ports that no other app takes.
export APP_BIRDHOUSE_NODE_IP="10.21.21.205"
export APP_BIRDHOUSE_IP="${APP_BIRDHOUSE_NODE_IP}"
export APP_BIRDHOUSE_NODE_PORT="50005"
export APP_BIRDHOUSE_TLS_PORT="50006"
export APP_BIRDHOUSE_EXPLORER_PORT="8481"
export APP_BIRDHOUSE_DASHBOARD_PORT="9400"

# For apps that depend on Electrs. One that is installed itself keeps its own values.
export APP_ELECTRS_IP="${APP_ELECTRS_IP:-${APP_BIRDHOUSE_IP}}"
export APP_ELECTRS_NODE_IP="${APP_ELECTRS_NODE_IP:-${APP_BIRDHOUSE_NODE_IP}}"
export APP_ELECTRS_NODE_PORT="${APP_ELECTRS_NODE_PORT:-${APP_BIRDHOUSE_NODE_PORT}}"

# Addresses for wallets, as the dashboard shows them. The onion service has a name once Tor has made it.
birdhouse_onion_file="${EXPORTS_TOR_DATA_DIR:-}/app-birdhouse-electrum/hostname"
APP_BIRDHOUSE_RPC_HIDDEN_SERVICE="$(cat "${birdhouse_onion_file}" 2> /dev/null || echo "notyetset.onion")"
export APP_BIRDHOUSE_RPC_HIDDEN_SERVICE
export APP_ELECTRS_RPC_HIDDEN_SERVICE="${APP_ELECTRS_RPC_HIDDEN_SERVICE:-${APP_BIRDHOUSE_RPC_HIDDEN_SERVICE}}"
APP_BIRDHOUSE_PUBLIC_HOST="tcp://${DEVICE_DOMAIN_NAME:-umbrel.local}:${APP_BIRDHOUSE_NODE_PORT}"
APP_BIRDHOUSE_PUBLIC_HOST="${APP_BIRDHOUSE_PUBLIC_HOST},ssl://${DEVICE_DOMAIN_NAME:-umbrel.local}:${APP_BIRDHOUSE_TLS_PORT}"
if [ "${APP_BIRDHOUSE_RPC_HIDDEN_SERVICE}" != "notyetset.onion" ]; then
	APP_BIRDHOUSE_PUBLIC_HOST="${APP_BIRDHOUSE_PUBLIC_HOST},tcp://${APP_BIRDHOUSE_RPC_HIDDEN_SERVICE}:${APP_BIRDHOUSE_NODE_PORT}"
fi
export APP_BIRDHOUSE_PUBLIC_HOST

#!/bin/bash
# Birdhouse for RaspiBlitz: an Electrum server and block explorer beside its bitcoind.
#
# Index and settings are in /mnt/hdd/app-storage/birdhouse. They stay when the SD card is written anew, when Birdhouse is
# updated, and when it is switched off without `delete-data`.

VERSION="@VERSION@"
RELEASES="@RELEASES@"
SHA256_AMD64="@SHA256_DEB_AMD64@"
SHA256_ARM64="@SHA256_DEB_ARM64@"

# electrs has 50001 and 50002, Fulcrum 50021 and 50022.
PORT_TCP="50031"
PORT_SSL="50032"
PORT_EXPLORER="8481"
PORT_DASHBOARD="9400"

DATA_DIR="/mnt/hdd/app-storage/birdhouse"
CONFIG="${DATA_DIR}/birdhouse.toml"
PASSWORD_FILE="${DATA_DIR}/rpc-password"
NODE_DIR="/mnt/hdd/bitcoin"
SCRIPTS="/home/admin/config.scripts"
# The file that commands such as "birdhouse ctl" read.
PACKAGED="/etc/birdhouse.toml"
DROP_IN="/etc/systemd/system/birdhouse.service.d/raspiblitz.conf"

usage() {
  echo "# bonus.birdhouse.sh on                  -> install Birdhouse ${VERSION}"
  echo "# bonus.birdhouse.sh off [delete-data]   -> remove it, with its index"
  echo "# bonus.birdhouse.sh update              -> install the version of this script"
  echo "# bonus.birdhouse.sh status              -> state (key=value)"
  echo "# bonus.birdhouse.sh menu                -> dialog with addresses"
  echo "# bonus.birdhouse.sh settings            -> the settings of a new installation"
  echo "# bonus.birdhouse.sh prestart            -> called by systemd"
}

# The settings of a new installation; later they belong to the owner.
settings() {
  cat <<TOML
# Settings of Birdhouse; "sudo systemctl restart birdhouse" after a change.
node-dir = "${NODE_DIR}"
data-dir = "${DATA_DIR}"
network = "bitcoin"
rpc-addr = "127.0.0.1:8332"
rpc-user = "raspibolt"
rpc-password-file = "${PASSWORD_FILE}"
preset = "pi4"
electrum-addr = "0.0.0.0:${PORT_TCP}"
electrum-tls-addr = "0.0.0.0:${PORT_SSL}"
http-addr = "0.0.0.0:${PORT_EXPLORER}"
ops-addr = "127.0.0.1:${PORT_DASHBOARD}"
TOML
}

# What the unit of the package needs here.
drop_in() {
  cat <<UNIT
[Unit]
RequiresMountsFor=/mnt/hdd

[Service]
ExecStartPre=+${SCRIPTS}/bonus.birdhouse.sh prestart
ExecStart=
ExecStart=/usr/bin/birdhouse run --config ${CONFIG}
ReadWritePaths=${DATA_DIR}
UNIT
}

# Prints the value of a key of bitcoin.conf.
of_node() {
  sudo sed -n "s/^$1=//p" "${NODE_DIR}/bitcoin.conf" | head -n 1
}

# Downloads the package, compares its checksum and installs it.
install_package() {
  local arch sha256 folder package
  arch=$(dpkg --print-architecture)
  case "${arch}" in
    amd64) sha256="${SHA256_AMD64}" ;;
    arm64) sha256="${SHA256_ARM64}" ;;
    *) echo "# FAIL - no package for ${arch}"; return 1 ;;
  esac
  folder=$(mktemp -d) || return 1
  package="${folder}/birdhouse_${VERSION}_${arch}.deb"
  # apt reads it as a user of its own.
  chmod 755 "${folder}"
  if curl --fail --location --silent --show-error --output "${package}" "${RELEASES}/$(basename "${package}")" &&
    echo "${sha256}  ${package}" | sha256sum --check --quiet &&
    sudo apt-get install -y -o Dpkg::Options::=--force-confold acl "${package}"; then
    rm -r "${folder}"
  else
    rm -r "${folder}"
    echo "# FAIL - the package was not installed"
    return 1
  fi
}

# Gives the service what it needs of the node: the blocks, and the password. As root.
prestart() {
  local password
  setfacl -m u:birdhouse:x "${NODE_DIR}"
  setfacl -R -m u:birdhouse:rX,d:u:birdhouse:rX "${NODE_DIR}/blocks"
  # Password B may have changed.
  password=$(sed -n 's/^rpcpassword=//p' "${NODE_DIR}/bitcoin.conf" | head -n 1)
  install -o birdhouse -g birdhouse -m 600 /dev/null "${PASSWORD_FILE}"
  echo "${password}" > "${PASSWORD_FILE}"
}

switch_on() {
  install_package || exit 1
  sudo install -d -o birdhouse -g birdhouse -m 700 "${DATA_DIR}"
  if ! sudo test -f "${CONFIG}"; then
    settings | sed "s/^rpc-user = .*/rpc-user = \"$(of_node rpcuser)\"/" | sudo tee "${CONFIG}" > /dev/null
  fi
  sudo chown -R birdhouse:birdhouse "${DATA_DIR}"
  sudo ln -sfn "${CONFIG}" "${PACKAGED}"
  sudo mkdir -p "$(dirname "${DROP_IN}")"
  drop_in | sudo tee "${DROP_IN}" > /dev/null
  sudo systemctl daemon-reload
  sudo systemctl enable birdhouse

  sudo ufw allow "${PORT_TCP}" comment 'Birdhouse TCP'
  sudo ufw allow "${PORT_SSL}" comment 'Birdhouse SSL'
  sudo ufw allow "${PORT_EXPLORER}" comment 'Birdhouse explorer'
  "${SCRIPTS}/tor.onion-service.sh" birdhouse "${PORT_TCP}" "${PORT_TCP}" "${PORT_SSL}" "${PORT_SSL}"
  "${SCRIPTS}/blitz.conf.sh" set birdhouse "on"

  if /home/admin/_cache.sh get state | grep -q "ready"; then sudo systemctl restart birdhouse; fi
  echo "# OK - follow the build of the index: sudo journalctl -fu birdhouse"
}

switch_off() {
  sudo systemctl disable --now birdhouse
  sudo rm -f "${DROP_IN}"
  sudo rmdir --ignore-fail-on-non-empty "$(dirname "${DROP_IN}")"
  sudo setfacl -x u:birdhouse "${NODE_DIR}"
  sudo setfacl -R -x u:birdhouse,d:u:birdhouse "${NODE_DIR}/blocks"
  # The package removes what this leads to.
  if [ -L "${PACKAGED}" ]; then sudo rm "${PACKAGED}"; fi
  sudo apt-get purge -y birdhouse
  sudo systemctl daemon-reload
  "${SCRIPTS}/tor.onion-service.sh" off birdhouse
  sudo ufw delete allow "${PORT_TCP}"
  sudo ufw delete allow "${PORT_SSL}"
  sudo ufw delete allow "${PORT_EXPLORER}"
  "${SCRIPTS}/blitz.conf.sh" set birdhouse "off"
  if [ "$1" = "delete-data" ]; then
    sudo rm -rf "${DATA_DIR}"
    echo "# OK - Birdhouse and its index are removed"
  else
    echo "# OK - Birdhouse is removed; the index is kept in ${DATA_DIR}"
  fi
}

status() {
  local installed=0 running=0
  if dpkg-query --show birdhouse > /dev/null 2>&1; then installed=1; fi
  if systemctl is-active --quiet birdhouse; then running=1; fi
  echo "appID='birdhouse'"
  echo "version='${VERSION}'"
  echo "isInstalled=${installed}"
  echo "isRunning=${running}"
  if [ "${installed}" = 1 ]; then
    echo "localIP='$(hostname -I | awk '{print $1}')'"
    echo "portTCP='${PORT_TCP}'"
    echo "portSSL='${PORT_SSL}'"
    echo "portExplorer='${PORT_EXPLORER}'"
    echo "TORaddress='$(sudo cat /mnt/hdd/tor/birdhouse/hostname 2> /dev/null)'"
  fi
  if [ "${running}" = 1 ]; then
    # One line: "serving at height ..", or how far the build is.
    echo "infoSync='$(curl --silent --max-time 5 "http://127.0.0.1:${PORT_DASHBOARD}/health" | tr -d "'")'"
  fi
}

menu() {
  local localIP TORaddress infoSync text
  # shellcheck source=/dev/null
  source <(status)
  text="Explorer: http://${localIP}:${PORT_EXPLORER}

Wallets: ${localIP}, port ${PORT_SSL} with TLS, ${PORT_TCP} without.
"
  if [ -n "${TORaddress}" ]; then
    text="${text}By Tor: ${TORaddress}, port ${PORT_TCP}.
"
  fi
  whiptail --title " Birdhouse ${VERSION} " --msgbox "${text}
State: ${infoSync:-not running}" 18 74
}

case "$1" in
  on | 1) switch_on ;;
  off | 0) switch_off "$2" ;;
  update) install_package && sudo systemctl restart birdhouse ;;
  status) status ;;
  menu) menu ;;
  settings) settings ;;
  drop-in) drop_in ;;
  prestart) prestart ;;
  "" | -h | -help | --help) usage; exit 1 ;;
  *) echo "# FAIL - Unknown Parameter $1"; exit 1 ;;
esac

# A module for nix-bitcoin: `services.birdhouse.enable = true;` beside its `services.bitcoind`.
#
# The node needs neither `txindex` nor ZMQ. With `prune = 1` it may be pruned; a larger `prune` deletes blocks by itself,
# so it is refused until the index has them. An update keeps the index and what the relay has stored; `rm -r` of
# `dataDir` frees the disk after the service is disabled.
{ config, lib, pkgs, ... }:
let
  inherit (lib) mkEnableOption mkIf mkOption types;

  cfg = config.services.birdhouse;
  bitcoind = config.services.bitcoind;
  nbLib = config.nix-bitcoin.lib;
  secretsDir = config.nix-bitcoin.secretsDir;

  settings = {
    network = bitcoind.makeNetworkName "bitcoin" "regtest";
    node-dir = bitcoind.dataDir;
    data-dir = cfg.dataDir;
    rpc-addr = nbLib.addressWithPort bitcoind.rpc.address bitcoind.rpc.port;
    rpc-user = bitcoind.rpc.users.birdhouse.name;
    electrum-addr = "${cfg.address}:${toString cfg.port}";
    ops-addr = "127.0.0.1:${toString cfg.dashboardPort}";
  } // cfg.settings;
in
{
  options.services.birdhouse = {
    enable = mkEnableOption "Birdhouse, a server for light clients of a Bitcoin node";
    package = mkOption {
      type = types.package;
      default = pkgs.callPackage ./package.nix { };
      defaultText = "built from the sources of this module";
      description = "Package of Birdhouse.";
    };
    address = mkOption {
      type = types.str;
      default = "127.0.0.1";
      description = "Address for wallets, over the Electrum protocol.";
    };
    port = mkOption {
      type = types.port;
      default = 50011;
      description = "Port for wallets. electrs and Fulcrum have 50001.";
    };
    dashboardPort = mkOption {
      type = types.port;
      default = 9400;
      description = "Port of dashboard, health and metrics on 127.0.0.1.";
    };
    dataDir = mkOption {
      type = types.path;
      default = "/var/lib/birdhouse";
      description = "Folder of the index, the certificate and the relay's events.";
    };
    settings = mkOption {
      type = types.attrsOf types.anything;
      default = { };
      example = { http-addr = "127.0.0.1:8080"; silent-payments = "scan"; };
      description = "Further settings, by the names of Birdhouse's configuration file.";
    };
    user = mkOption {
      type = types.str;
      default = "birdhouse";
      description = "User of the service.";
    };
    group = mkOption {
      type = types.str;
      default = cfg.user;
      description = "Group of the service.";
    };
    tor.enforce = nbLib.tor.enforce;
  };

  config = mkIf cfg.enable {
    services.bitcoind = {
      enable = true;
      # Birdhouse reads the files of the blocks.
      dataDirReadableByGroup = true;
      rpc.users.birdhouse = {
        passwordHMACFromFile = true;
        rpcwhitelist = [
          "decoderawtransaction"
          "estimatesmartfee"
          "getbestblockhash"
          "getblock"
          "getblockchaininfo"
          "getblockhash"
          "getblockheader"
          "getchainstates"
          "getchaintips"
          "getmempoolinfo"
          "getnetworkinfo"
          "getprioritisedtransactions"
          "getrawmempool"
          "getrawtransaction"
          "gettxspendingprevout"
          "sendrawtransaction"
          "submitpackage"
          "testmempoolaccept"
          "validateaddress"
          "waitfornewblock"
          # Beside a pruned node.
          "getblockfrompeer"
          "getpeerinfo"
          "gettxout"
          "pruneblockchain"
        ];
      };
    };

    nix-bitcoin.secrets = {
      bitcoin-rpcpassword-birdhouse.user = cfg.user;
      bitcoin-HMAC-birdhouse.user = bitcoind.user;
    };
    nix-bitcoin.generateSecretsCmds.birdhouse = "makeBitcoinRPCPassword birdhouse";

    # For commands such as `birdhouse ctl status`, which read this file.
    environment.etc."birdhouse.toml".source = (pkgs.formats.toml { }).generate "birdhouse.toml" settings;
    environment.systemPackages = [ cfg.package ];

    systemd.tmpfiles.rules = [ "d '${cfg.dataDir}' 0700 ${cfg.user} ${cfg.group} - -" ];

    systemd.services.birdhouse = {
      description = "Birdhouse";
      wantedBy = [ "multi-user.target" ];
      wants = [ "bitcoind.service" ];
      after = [ "bitcoind.service" "nix-bitcoin-secrets.target" ];
      restartTriggers = [ config.environment.etc."birdhouse.toml".source ];
      serviceConfig = nbLib.defaultHardening // {
        Type = "notify";
        WatchdogSec = 60;
        # A replica copies an index before it is ready, and a spare waits for its turn.
        TimeoutStartSec = "infinity";
        ExecStart = "${cfg.package}/bin/birdhouse run";
        LoadCredential = "rpc-password:${secretsDir}/bitcoin-rpcpassword-birdhouse";
        User = cfg.user;
        Group = cfg.group;
        Restart = "on-failure";
        RestartSec = "10s";
        LimitNOFILE = 65536;
        ReadWritePaths = [ cfg.dataDir ];
      } // nbLib.allowedIPAddresses cfg.tor.enforce;
    };

    users.users.${cfg.user} = {
      isSystemUser = true;
      group = cfg.group;
      extraGroups = [ bitcoind.group ];
    };
    users.groups.${cfg.group} = { };
  };
}

# Evaluates the module of contrib/boxes/nix-bitcoin with stand-ins for what nixpkgs and nix-bitcoin define.
{ prune }:
let
  lib = {
    mkOption = option: option;
    mkEnableOption = _: { default = false; };
    mkIf = condition: value: if condition then value else { };
    types = {
      str = null;
      port = null;
      path = null;
      package = null;
      anything = null;
      attrsOf = _: null;
    };
  };

  nix-bitcoin = {
    secretsDir = "/etc/nix-bitcoin-secrets";
    lib = {
      addressWithPort = address: port: "${address}:${toString port}";
      allowedIPAddresses = onlyLocal: { IPAddressAllow = if onlyLocal then "127.0.0.1/32" else "any"; };
      defaultHardening = { ProtectSystem = "strict"; };
      tor.enforce.default = false;
    };
  };

  bitcoind = {
    inherit prune;
    dataDir = "/var/lib/bitcoind";
    user = "bitcoin";
    group = "bitcoin";
    makeNetworkName = mainnet: regtest: mainnet;
    rpc = {
      address = "127.0.0.1";
      port = 8332;
      users.birdhouse.name = "birdhouse";
    };
  };

  # The value of each option is its default, but for what a user sets.
  defaults = builtins.mapAttrs (_: option: option.default or (defaults option));
  set = { enable = true; package = "/birdhouse"; settings = { http-addr = "127.0.0.1:8080"; }; };
  module = import ../../../../contrib/boxes/nix-bitcoin/birdhouse.nix {
    inherit lib;
    config = {
      inherit nix-bitcoin;
      services = {
        inherit bitcoind;
        birdhouse = defaults (builtins.removeAttrs module.options.services.birdhouse [ "package" ]) // set;
      };
      environment = module.config.environment;
    };
    pkgs = {
      callPackage = _: _: null;
      formats.toml = _: { generate = _: value: value; };
    };
  };
in
{
  settings = module.config.environment.etc."birdhouse.toml".source;
  service = module.config.systemd.services.birdhouse.serviceConfig;
  bitcoind = module.config.services.bitcoind;
  groups = module.config.users.users.birdhouse.extraGroups;
  assertions = module.config.assertions or [ ];
}

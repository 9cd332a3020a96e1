# Evaluates the package and the flake of contrib/boxes/nix-bitcoin with stand-ins for nixpkgs.
let
  folder = ../../../../contrib/boxes/nix-bitcoin;
  package = import (folder + "/package.nix") {
    lib.licenses.mit = "MIT";
    rustPlatform.buildRustPackage = arguments: arguments;
    pkg-config = null;
    installShellFiles = null;
  };
  nixpkgs = {
    lib.genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
    legacyPackages = {
      x86_64-linux.callPackage = path: _: toString path;
      aarch64-linux.callPackage = path: _: toString path;
    };
  };
  outputs = (import (folder + "/flake.nix")).outputs { inherit nixpkgs; self = null; };
in
{
  inherit (package) pname version;
  src = toString package.src;
  lock = toString package.cargoLock.lockFile;
  systems = builtins.attrNames outputs.packages;
  module = toString outputs.nixosModules.default;
}

# In the flake of a nix-bitcoin node: `birdhouse.url = "github:OWNER/birdhouse?dir=contrib/boxes/nix-bitcoin";`, and
# `birdhouse.nixosModules.default` among its modules.
{
  description = "Birdhouse, a server for light clients of a Bitcoin node";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-26.05";

  outputs = { self, nixpkgs }: {
    nixosModules.default = ./birdhouse.nix;
    packages = nixpkgs.lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: {
      default = nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
    });
  };
}

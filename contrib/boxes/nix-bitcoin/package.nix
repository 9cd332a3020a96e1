# Birdhouse from the sources beside this file. Needs Rust 1.91 or newer.
{ lib, rustPlatform, pkg-config, installShellFiles }:
let
  root = ../../..;
  workspace = (builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"))).workspace;
in
rustPlatform.buildRustPackage {
  pname = "birdhouse";
  version = workspace.package.version;
  src = root;
  cargoLock.lockFile = root + "/Cargo.lock";
  cargoBuildFlags = [ "-p" "birdhouse" ];
  # They need a node, and hours.
  doCheck = false;
  nativeBuildInputs = [ pkg-config installShellFiles ];
  postInstall = ''
    $out/bin/birdhouse man manual
    installManPage manual/*.1
    installShellCompletion manual/birdhouse.bash manual/birdhouse.fish --zsh manual/_birdhouse
  '';
  meta = {
    description = "Server for light clients of a self-hosted Bitcoin node";
    license = lib.licenses.mit;
    mainProgram = "birdhouse";
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}

# Birdhouse for Homebrew on Linux. macOS is untested and has no package.
class Birdhouse < Formula
  desc "Electrum server, block explorer and Nostr relay beside a Bitcoin node"
  homepage "@REPOSITORY@"
  license "MIT"

  depends_on :linux

  on_intel do
    url "@RELEASES@/birdhouse-@VERSION@-x86_64-linux-gnu.tar.xz"
    sha256 "@SHA256_TARBALL_X86_64@"
  end

  on_arm do
    url "@RELEASES@/birdhouse-@VERSION@-aarch64-linux-gnu.tar.xz"
    sha256 "@SHA256_TARBALL_AARCH64@"
  end

  def install
    bin.install "birdhouse"
    # Homebrew keeps a file that is there.
    etc.install "contrib/birdhouse.toml"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/birdhouse.bash" => "birdhouse"
    zsh_completion.install "completions/_birdhouse"
    fish_completion.install "completions/birdhouse.fish"
  end

  def caveats
    <<~EOS
      Settings: #{etc}/birdhouse.toml. The index is in ~/.birdhouse, which stays when the formula is removed:
      delete the folder to free the disk. Run it as the user of bitcoind, who alone may read the blocks.
    EOS
  end

  service do
    run [opt_bin/"birdhouse", "run", "--config", etc/"birdhouse.toml"]
    keep_alive crashed: true
    error_log_path var/"log/birdhouse.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/birdhouse --version")
    assert_match "electrum-addr", shell_output("#{bin}/birdhouse config --config #{etc}/birdhouse.toml")
  end
end

# A formula for a tap of the project: `brew install specreel/tap/specreel`. scripts/release-recipes.sh fills in version and sums.
class Specreel < Formula
  desc "Terminal studio that captions videos with speculative decoding"
  homepage "https://github.com/specreel/specreel"
  version "0.1.0"
  license all_of: [
    { any_of: ["MIT", "Apache-2.0"] },
    "LGPL-2.1-or-later",
    "BSD-2-Clause",
    "Zlib",
  ]

  on_macos do
    on_arm do
      url "https://github.com/specreel/specreel/releases/download/v#{version}/specreel-#{version}-aarch64-apple-darwin.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000" # aarch64-apple-darwin
    end
    on_intel do
      url "https://github.com/specreel/specreel/releases/download/v#{version}/specreel-#{version}-x86_64-apple-darwin.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000" # x86_64-apple-darwin
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/specreel/specreel/releases/download/v#{version}/specreel-#{version}-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000" # aarch64-unknown-linux-gnu
    end
    on_intel do
      url "https://github.com/specreel/specreel/releases/download/v#{version}/specreel-#{version}-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "0000000000000000000000000000000000000000000000000000000000000000" # x86_64-unknown-linux-gnu
    end
  end

  def install
    bin.install "specreel"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/specreel.bash" => "specreel"
    zsh_completion.install "completions/_specreel"
    fish_completion.install "completions/specreel.fish"
    prefix.install Dir["licenses/*"], "specreel.cdx.json"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/specreel -V")
    assert_match(/\w/, shell_output("#{bin}/specreel caption demo --quiet"))
  end
end

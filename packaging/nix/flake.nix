{
  description = "Terminal studio that captions videos with speculative decoding";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  # Builds from source, with FFmpeg of nixpkgs: `nix run "git+file:.?dir=packaging/nix"`.
  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = nixpkgs.lib.genAttrs systems;
      root = ../..;
      version = (builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"))).workspace.package.version;
    in
    {
      packages = each (
        system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
        in
        {
          default = pkgs.rustPlatform.buildRustPackage {
            pname = "specreel";
            inherit version;
            src = pkgs.lib.cleanSource root;
            cargoLock.lockFile = root + "/Cargo.lock";
            cargoBuildFlags = [ "--bin" "specreel" ];
            nativeBuildInputs = [ pkgs.pkg-config pkgs.rustPlatform.bindgenHook pkgs.installShellFiles pkgs.makeWrapper ];
            buildInputs = [ pkgs.ffmpeg-headless ];
            SPECREEL_COMMIT = self.shortRev or self.dirtyShortRev or "";
            # The tests download a model.
            doCheck = false;
            postInstall =
              ''
                $out/bin/specreel man --dir man && installManPage man/*.1
                installShellCompletion --cmd specreel --bash <($out/bin/specreel completions bash) \
                  --zsh <($out/bin/specreel completions zsh) --fish <($out/bin/specreel completions fish)
              ''
              + pkgs.lib.optionalString pkgs.stdenv.hostPlatform.isLinux ''
                wrapProgram $out/bin/specreel --suffix LD_LIBRARY_PATH : ${pkgs.lib.makeLibraryPath [ pkgs.vulkan-loader ]}
              '';
            meta = {
              homepage = "https://github.com/specreel/specreel";
              license = with pkgs.lib.licenses; [ mit asl20 ];
              mainProgram = "specreel";
            };
          };
        }
      );
    };
}

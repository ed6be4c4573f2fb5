#!/usr/bin/env python3
"""Puts the artifacts of a release together around a binary that is already built.

package.py --binary FILE --target TARGET --ffmpeg PREFIX --texts DIR --out DIR

Writes an archive (a zip file for Windows), a Python wheel, npm packages, a Debian and an RPM package, manifests for winget and
Scoop, an entry for the registry of the Model Context Protocol, and a bill of materials (CycloneDX). All times are
SOURCE_DATE_EPOCH, all owners root, all lists sorted: the same inputs give the same bytes. Needs Python 3.9, cargo and, for the
Debian and RPM packages, dpkg-deb and rpmbuild; without them there are none.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import textwrap
import time
import uuid
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or int(time.time())

# Rust target: architecture, npm's os and cpu, wheel tag, Debian's architecture.
TARGETS = {
    "x86_64-unknown-linux-gnu": ("linux", "x64", "manylinux_2_28_x86_64", "amd64"),
    "aarch64-unknown-linux-gnu": ("linux", "arm64", "manylinux_2_28_aarch64", "arm64"),
    "x86_64-apple-darwin": ("darwin", "x64", "macosx_11_0_x86_64", None),
    "aarch64-apple-darwin": ("darwin", "arm64", "macosx_11_0_arm64", None),
    "x86_64-pc-windows-gnu": ("win32", "x64", "win_amd64", None),
}
MAINTAINER = "specreel's developers <maintainers@specreel.example>"    # set before the first release, see docs/releasing.md
ABOUT = """specreel captions videos on your own machine with Video-LLMs, makes them
faster with speculative decoding, and shows how every token was verified.
"""
LICENSE_FILE = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked", "--features=static-ffmpeg"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def linked(target):
    """The package specreel, and all packages in its binary: none that only build, test or derive."""
    packages = {(p["name"], p["version"]): p for p in json.loads(cargo("metadata", "--format-version=1"))["packages"]}
    tree = cargo("tree", "--edges=normal,no-proc-macro", f"--target={target}", "--prefix=none", "--format={p}")
    names = {(words[0], words[1].removeprefix("v")) for words in map(str.split, tree.splitlines()) if words}
    found = [packages[name] for name in sorted(names)]
    return next(p for p in found if p["name"] == "specreel"), found


def third_party(packages):
    """Every dependency with its license, and every license's text once."""
    lines, texts, missing = [], {}, []
    for package in packages:
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']}"
        lines.append(f"{name}: {package['license'] or 'see its license file'}, {package['repository'] or 'crates.io'}")
        folder = Path(package["manifest_path"]).parent
        files = [f for f in sorted(folder.iterdir()) if f.is_file() and LICENSE_FILE.match(f.name)]
        if not files:
            missing.append(f"{name} ({package['license']})")
        for file in files:
            text = file.read_text(errors="replace").strip()
            texts.setdefault(text, []).append(name)
    out = "specreel contains these Rust packages:\n\n" + "\n".join(lines) + "\n"
    if missing:
        out += "\nThese come without a license text; the texts of their licenses are among those below:\n\n" + "\n".join(missing) + "\n"
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        out += "\n" + "=" * 80 + "\n" + ", ".join(names) + "\n\n" + text + "\n"
    return out.encode()


def debian_sources(ffmpeg):
    """Name and version of each C library, from the names of its source packages."""
    names = (ffmpeg / "licenses/SOURCES.txt").read_text().split()
    return [tuple(name.removesuffix(".dsc").split("_", 1)) for name in names]


def bill_of_materials(root, packages, libraries, binary):
    def component(name, version, license_, purl, kind="library"):
        found = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
        if license_:
            found["licenses"] = [{"expression": license_.replace("/", " OR ")}]
        return found

    licenses = {"ffmpeg": "LGPL-2.1-or-later", "dav1d": "BSD-2-Clause", "zlib": "Zlib"}
    components = [
        component(p["name"], p["version"], p["license"], f"pkg:cargo/{p['name']}@{p['version']}")
        for p in packages
        if p["source"] is not None
    ]
    components += [component(n, v, licenses[n], f"pkg:deb/debian/{n}@{v}?arch=source") for n, v in libraries]
    digest = hashlib.sha256(binary).hexdigest()
    whole = component("specreel", root["version"], root["license"], f"pkg:cargo/specreel@{root['version']}", "application")
    whole["hashes"] = [{"alg": "SHA-256", "content": digest}]
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "urn:uuid:" + str(uuid.UUID(digest[:32])),
        "version": 1,
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH)), "component": whole},
        "components": components,
    }
    return (json.dumps(bom, indent=1) + "\n").encode()


def license_of(root):
    """Of the program with the libraries that it contains."""
    return f"({root['license']}) AND LGPL-2.1-or-later AND BSD-2-Clause AND Zlib"


def write_tar(path, files):
    """A .tar.gz of {name: (bytes, mode)}."""
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=EPOCH) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, (data, mode) in sorted(files.items()):
                info = tarfile.TarInfo(name)
                info.size, info.mode, info.mtime, info.uname, info.gname = len(data), mode, EPOCH, "root", "root"
                tar.addfile(info, io.BytesIO(data))


def write_zip(path, files):
    date = time.gmtime(max(EPOCH, 315532800))[:6]    # zip files begin in 1980
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, mode) in files.items():
            info = zipfile.ZipInfo(name, date)
            info.external_attr, info.compress_type, info.create_system = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED, 3
            archive.writestr(info, data)


def wheel(out, root, tag, program, binary, licenses):
    name = f"specreel-{root['version']}"
    info = f"{name}.dist-info"
    # The comment says in which entry of the registry of the Model Context Protocol the package is.
    readme = (ROOT / "README.md").read_text() + f"\n<!-- mcp-name: {mcp_name(root)} -->\n"
    header = [
        "Metadata-Version: 2.4",
        "Name: specreel",
        f"Version: {root['version']}",
        f"Summary: {root['description']}",
        f"License-Expression: {license_of(root)}",
        *(f"License-File: {file}" for file in sorted(licenses)),
        f"Project-URL: Repository, {root['repository']}",
        f"Keywords: {','.join(root['keywords'])}",
        "Classifier: Environment :: Console",
        "Classifier: Topic :: Multimedia :: Video",
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
    ]
    files = {f"{name}.data/scripts/{program}": (binary, 0o755)}
    files |= {f"{info}/licenses/{file}": (data, 0o644) for file, data in sorted(licenses.items())}
    files[f"{info}/METADATA"] = ("\n".join(header) + "\n\n" + readme).encode(), 0o644
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: specreel\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode(), 0o644
    record = ""
    for path, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode(), 0o644
    write_zip(out / f"{name}-py3-none-{tag}.whl", files)


def npm(out, root, system, cpu, program, binary, licenses):
    """The launcher, which is the same for every target, and the package with the binary."""
    common = {
        "version": root["version"],
        "license": root["license"],
        "repository": {"type": "git", "url": f"git+{root['repository']}.git"},
    }
    platform = {
        "name": f"@specreel/{system}-{cpu}",
        "description": f"The program of specreel for {system} {cpu}",
        **common,
        "os": [system],
        "cpu": [cpu],
        "preferUnplugged": True,
    }
    if system == "linux":
        platform["libc"] = ["glibc"]
    files = {f"licenses/{name}": (data, 0o644) for name, data in licenses.items()}
    files |= {f"bin/{program}": (binary, 0o755), "package.json": (to_json(platform), 0o644)}
    files["README.md"] = (f"# {platform['name']}\n\nInstall `specreel` instead: it chooses the package of your system.\n").encode(), 0o644
    write_tar(out / f"specreel-{system}-{cpu}-{root['version']}.npm.tgz", {f"package/{n}": f for n, f in files.items()})

    systems = sorted({f"@specreel/{t[0]}-{t[1]}" for t in TARGETS.values()})
    launcher = {
        "name": "specreel",
        "mcpName": mcp_name(root),
        "description": root["description"],
        **common,
        "keywords": root["keywords"],
        "bin": {"specreel": "specreel.js"},
        "files": ["specreel.js"],
        "engines": {"node": ">=18"},
        "optionalDependencies": {name: root["version"] for name in systems},
    }
    files = {
        "package.json": (to_json(launcher), 0o644),
        "specreel.js": ((ROOT / "packaging/npm/specreel.js").read_bytes(), 0o755),
        "README.md": ((ROOT / "README.md").read_bytes(), 0o644),
        "LICENSE-MIT": ((ROOT / "LICENSE-MIT").read_bytes(), 0o644),
        "LICENSE-APACHE": ((ROOT / "LICENSE-APACHE").read_bytes(), 0o644),
    }
    write_tar(out / f"specreel-{root['version']}.npm.tgz", {f"package/{n}": f for n, f in files.items()})


def mcp_name(root):
    """The name in the registry of the Model Context Protocol: the packages that it lists must repeat it."""
    return "io.github." + "/".join(root["repository"].split("/")[-2:])


def mcp_server(out, root):
    """The entry for that registry."""
    def package(registry, hint):
        return {
            "registryType": registry,
            "identifier": "specreel",
            "version": root["version"],
            "runtimeHint": hint,
            "transport": {"type": "stdio"},
            "packageArguments": [{"type": "positional", "value": "mcp"}],
        }

    server = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": mcp_name(root),
        "title": "specreel",
        "description": "Captions videos and answers questions about them with local Video-LLMs",
        "version": root["version"],
        "repository": {"url": root["repository"], "source": "github"},
        "packages": [package("npm", "npx"), package("pypi", "uvx")],
    }
    (out / "server.json").write_bytes(to_json(server))


def winget(out, root, archive):
    """The three manifests of a package for the Windows Package Manager, in the folders of its repository."""
    identifier, version = "specreel.specreel", root["version"]
    url = f"{root['repository']}/releases/download/v{version}/{archive.name}"
    manifests = {
        "": {"DefaultLocale": "en-US", "ManifestType": "version"},
        ".installer": {
            "InstallerType": "zip",
            "NestedInstallerType": "portable",
            "NestedInstallerFiles": [{"RelativeFilePath": f"{archive.stem}\\specreel.exe", "PortableCommandAlias": "specreel"}],
            "Installers": [
                {
                    "Architecture": "x64",
                    "InstallerUrl": url,
                    "InstallerSha256": hashlib.sha256(archive.read_bytes()).hexdigest().upper(),
                }
            ],
            "ManifestType": "installer",
        },
        ".locale.en-US": {
            "PackageLocale": "en-US",
            "Publisher": "specreel",
            "PackageName": "specreel",
            "PackageUrl": root["repository"],
            "License": root["license"],
            "ShortDescription": root["description"],
            "Tags": root["keywords"],
            "ManifestType": "defaultLocale",
        },
    }
    files = {}
    for part, values in manifests.items():
        values = {"PackageIdentifier": identifier, "PackageVersion": version, **values, "ManifestVersion": "1.6.0"}
        # JSON is YAML.
        files[f"s/specreel/specreel/{version}/{identifier}{part}.yaml"] = to_json(values), 0o644
    write_zip(out / f"specreel-{version}-winget.zip", files)


def scoop(out, root, archive):
    version = root["version"]
    release = f"{root['repository']}/releases/download"
    manifest = {
        "version": version,
        "description": root["description"],
        "homepage": root["repository"],
        "license": root["license"].replace(" OR ", "|"),
        "architecture": {
            "64bit": {
                "url": f"{release}/v{version}/{archive.name}",
                "hash": hashlib.sha256(archive.read_bytes()).hexdigest(),
                "extract_dir": archive.stem,
            }
        },
        "bin": "specreel.exe",
        "checkver": "github",
        "autoupdate": {
            "architecture": {
                "64bit": {
                    "url": f"{release}/v$version/specreel-$version-x86_64-pc-windows-gnu.zip",
                    "extract_dir": "specreel-$version-x86_64-pc-windows-gnu",
                }
            }
        },
    }
    (out / "specreel.scoop.json").write_bytes(to_json(manifest))


def to_json(value):
    return (json.dumps(value, indent=2) + "\n").encode()


def write_tree(stage, files):
    """The files of a package, {path: bytes}, in the directory from which it is built."""
    for name, data in files.items():
        path = stage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if name == "usr/bin/specreel" else 0o644)
    for path in [stage, *stage.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (EPOCH, EPOCH))


def deb(out, root, architecture, binary, licenses, texts):
    version = f"{root['version']}-1"
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(EPOCH))
    changelog = f"specreel ({version}) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- {MAINTAINER}  {date}\n"
    copying = (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        f"Upstream-Name: specreel\nSource: {root['repository']}\n\n"
        "Files: *\nCopyright: the developers of specreel\nLicense: Expat or Apache-2.0\n"
        " FFmpeg (LGPL-2.1-or-later), dav1d (BSD-2-Clause), zlib and the Rust packages that the program contains are listed with\n"
        " their licenses in /usr/share/doc/specreel/licenses.\n"
        " .\n On Debian systems, the text of the Apache license is in /usr/share/common-licenses/Apache-2.0, that of the LGPL in\n"
        " /usr/share/common-licenses/LGPL-2.1.\n .\n"
    )
    copying += "".join(f" {line}\n" if line.strip() else " .\n" for line in (ROOT / "LICENSE-MIT").read_text().splitlines())

    def zipped(data):
        return gzip.compress(data, 9, mtime=0)

    share = "usr/share"
    doc = f"{share}/doc/specreel"
    files = {
        "usr/bin/specreel": binary,
        f"{doc}/copyright": copying.encode(),
        f"{doc}/changelog.Debian.gz": zipped(changelog.encode()),
        f"{doc}/changelog.gz": zipped((ROOT / "CHANGELOG.md").read_bytes()),
        f"{doc}/README.md.gz": zipped((ROOT / "README.md").read_bytes()),
        f"{share}/lintian/overrides/specreel": (ROOT / "packaging/debian/lintian-overrides").read_bytes(),
        f"{share}/bash-completion/completions/specreel": (texts / "completions/specreel.bash").read_bytes(),
        f"{share}/zsh/vendor-completions/_specreel": (texts / "completions/_specreel").read_bytes(),
        f"{share}/fish/vendor_completions.d/specreel.fish": (texts / "completions/specreel.fish").read_bytes(),
    }
    files |= {f"{doc}/licenses/{name}.gz": zipped(data) for name, data in licenses.items() if "LICENSE" not in name}
    files |= {f"{share}/man/man1/{page.name}.gz": zipped(page.read_bytes()) for page in (texts / "man").iterdir()}
    size = sum(len(data) for data in files.values()) // 1024
    control = (
        f"Package: specreel\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n"
        f"Installed-Size: {size}\nDepends: libc6 (>= 2.28)\nSuggests: libvulkan1, mesa-vulkan-drivers\nSection: video\n"
        f"Priority: optional\nHomepage: {root['repository']}\nDescription: terminal studio that captions videos\n"
    ) + textwrap.indent(ABOUT, " ")
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "root"
        write_tree(stage, files | {"DEBIAN/control": control.encode(), "DEBIAN/md5sums": sums.encode()})
        # xz is what every supported Debian reads.
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", stage, out / f"specreel_{version}_{architecture}.deb"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)})


def rpm(out, root, architecture, binary, licenses, texts):
    """At the places of Fedora, which openSUSE shares. rpmbuild finds out itself which libraries and versions the binary needs."""
    share = "usr/share"
    doc, license_ = f"{share}/doc/specreel", f"{share}/licenses/specreel"
    files = {
        "usr/bin/specreel": binary,
        f"{doc}/CHANGELOG.md": (ROOT / "CHANGELOG.md").read_bytes(),
        f"{doc}/README.md": (ROOT / "README.md").read_bytes(),
        f"{share}/bash-completion/completions/specreel": (texts / "completions/specreel.bash").read_bytes(),
        f"{share}/zsh/site-functions/_specreel": (texts / "completions/_specreel").read_bytes(),
        f"{share}/fish/vendor_completions.d/specreel.fish": (texts / "completions/specreel.fish").read_bytes(),
    }
    files |= {f"{license_}/{name}": data for name, data in licenses.items()}
    files |= {f"{share}/man/man1/{page.name}.gz": gzip.compress(page.read_bytes(), 9, mtime=0) for page in (texts / "man").iterdir()}
    kinds = {doc: "%doc ", license_: "%license "}
    listed = "".join(f"{kinds.get(str(Path(name).parent), '')}/{name}\n" for name in sorted(files))
    version = root["version"].replace("-", "~")    # sorts 1.0.0~rc.1 before 1.0.0, and a dash is not allowed
    date = time.strftime("%a %b %d %Y", time.gmtime(EPOCH))
    spec = (
        f"Name: specreel\nVersion: {version}\nRelease: 1\nSummary: Terminal studio that captions videos\n"
        f"License: {license_of(root)}\nURL: {root['repository']}\nPackager: {MAINTAINER}\nSuggests: vulkan-loader\n"
        f"%description\n{ABOUT}\n%install\ncp -a %{{stage}}/. %{{buildroot}}/\n%files\n%dir /{doc}\n%dir /{license_}\n{listed}"
        f"%changelog\n* {date} {MAINTAINER} - {version}-1\n- See CHANGELOG.md.\n"
    )
    settings = {
        "_rpmdir": str(out.resolve()),
        "_rpmfilename": f"specreel-{root['version']}-1.{architecture}.rpm",
        "_buildhost": "specreel",
        "use_source_date_epoch_as_buildtime": "1",
        "_build_id_links": "none",
        # The files stay as they are: no stripping, no compression of man pages.
        "__os_install_post": "%{nil}",
        "debug_package": "%{nil}",
        # RHEL 8 reads it, too.
        "_binary_payload": "w6.xzdio",
    }
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "root"
        write_tree(stage, files)
        (Path(folder) / "specreel.spec").write_text(spec)
        command = ["rpmbuild", "-bb", "--quiet", f"--target={architecture}-linux"]
        for name, value in {**settings, "_topdir": f"{folder}/build", "stage": stage}.items():
            command += ["--define", f"{name} {value}"]
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8"}
        subprocess.run([*command, f"{folder}/specreel.spec"], check=True, stdout=subprocess.DEVNULL, env=env)


def main():
    parser = argparse.ArgumentParser()
    for name in ["binary", "ffmpeg", "texts", "out"]:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--target", choices=TARGETS, required=True)
    args = parser.parse_args()
    system, cpu, tag, debian = TARGETS[args.target]
    args.out.mkdir(parents=True, exist_ok=True)

    root, packages = linked(args.target)
    binary = args.binary.read_bytes()
    libraries = debian_sources(args.ffmpeg)
    licenses = {name: (ROOT / name).read_bytes() for name in ["LICENSE-MIT", "LICENSE-APACHE"]}
    licenses |= {file.name: file.read_bytes() for file in (args.ffmpeg / "licenses").iterdir()}
    licenses["README.txt"] = (ROOT / "packaging/licenses.txt").read_bytes()
    licenses["THIRD-PARTY.txt"] = third_party(packages)
    bom = bill_of_materials(root, packages, libraries, binary)

    name = f"specreel-{root['version']}-{args.target}"
    program = "specreel.exe" if system == "win32" else "specreel"
    files = {program: (binary, 0o755), "specreel.cdx.json": (bom, 0o644)}
    files |= {text: ((ROOT / text).read_bytes(), 0o644) for text in ["README.md", "CHANGELOG.md"]}
    files |= {f"licenses/{license_}": (data, 0o644) for license_, data in licenses.items()}
    if system != "win32":
        files |= {str(f.relative_to(args.texts)): (f.read_bytes(), 0o644) for f in args.texts.rglob("*") if f.is_file()}
    files = {f"{name}/{path}": file for path, file in files.items()}
    if system == "win32":
        archive = args.out / f"{name}.zip"
        write_zip(archive, files)
        winget(args.out, root, archive)
        scoop(args.out, root, archive)
    else:
        write_tar(args.out / f"{name}.tar.gz", files)
    (args.out / f"{name}.cdx.json").write_bytes(bom)
    wheel(args.out, root, tag, program, binary, licenses)
    npm(args.out, root, system, cpu, program, binary, licenses)
    mcp_server(args.out, root)
    if debian and shutil.which("dpkg-deb"):
        deb(args.out, root, debian, binary, licenses, args.texts)
    if system == "linux" and shutil.which("rpmbuild"):
        rpm(args.out, root, args.target.split("-")[0], binary, licenses, args.texts)


if __name__ == "__main__":
    main()

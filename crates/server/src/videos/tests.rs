use std::{
    io::{Read, Write},
    net::{IpAddr, TcpListener},
};

use super::*;

fn store(max_file: u64, max_total: u64) -> Store {
    Store::new(max_file, max_total).unwrap()
}

fn received(store: &Store, bytes: &[u8]) -> Incoming {
    let mut incoming = store.incoming().unwrap();
    incoming.write(bytes).unwrap();
    incoming
}

#[test]
fn stored_files_are_bounded_shared_and_removed() {
    let store = store(8, 20);
    let mut incoming = store.incoming().unwrap();
    incoming.write(b"12345678").unwrap();
    assert_eq!(incoming.write(b"9").unwrap_err().code, "video_too_large");
    drop(incoming);
    assert_eq!(store.used(), 0, "what is not kept does not count");

    let first = store.keep(received(&store, b"same"), "a.mp4".into(), "p".into()).unwrap();
    let second = store.keep(received(&store, b"same"), "b.mp4".into(), "p".into()).unwrap();
    assert!(first.id != second.id && first.blob.path() == second.blob.path() && store.used() == 4);
    let path = first.blob.path().to_owned();
    let (ids, blob) = ([first.id.clone(), second.id.clone()], first.blob.clone());
    drop((first, second));
    store.delete(&ids[0]).unwrap();
    store.delete(&ids[1]).unwrap();
    assert!(path.exists(), "a run still reads it");
    drop(blob);
    // Inline videos are kept up to half of the room; the oldest goes.
    for bytes in [b"aaaa", b"bbbb", b"cccc"] {
        store.keep_recent(received(&store, bytes)).unwrap();
    }
    assert!(!path.exists() && store.used() == 8, "{}", store.used());
    assert_eq!(store.list().len(), 0);
    for unknown in [&*ids[0], "file-", "file-1", "file-1-", "file-x-y", "x", ""] {
        assert_eq!(store.get(unknown).err().unwrap().code, "file_not_found", "{unknown}");
    }
    let (_big, mut more) = (received(&store, b"12345678"), store.incoming().unwrap());
    assert_eq!(more.write(b"12345678").unwrap_err().code, "storage_full");
    store.clear();
    assert!(!path.parent().unwrap().exists());
}

#[cfg(unix)]
#[test]
fn a_file_below_an_allowed_directory_is_found_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let [inside, outside] = ["in", "out"].map(|name| dir.path().join(name));
    for (folder, file) in [(&inside, "a b.mp4"), (&outside, "secret.mp4")] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink(outside.join("secret.mp4"), inside.join("link.mp4")).unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("folder")).unwrap();
    std::os::unix::fs::symlink("a b.mp4", inside.join("own.mp4")).unwrap();
    let allowed = AllowedDirs::new(std::slice::from_ref(&inside)).unwrap();
    let real = std::fs::canonicalize(inside.join("a b.mp4")).unwrap();
    let whole = inside.join("a b.mp4").display().to_string();
    for name in ["a b.mp4", "./a b.mp4", "own.mp4", &whole, &format!("file://{}", whole.replace(' ', "%20"))]
    {
        assert_eq!(allowed.find(name).unwrap(), real, "{name}");
    }
    let secret = outside.join("secret.mp4").display().to_string();
    let words = |name: &str| allowed.find(name).unwrap_err().message.replace(name, "NAME");
    let missing = words("none.mp4");
    for name in [
        "../out/secret.mp4",
        "link.mp4",
        "folder/secret.mp4",
        &secret,
        &format!("file://{secret}"),
        "/etc/passwd",
        "file:///etc/passwd",
        "",
        ".",
        "a b.mp4/..",
        "nul\0",
    ] {
        assert!(allowed.find(name).is_err(), "{name}");
    }
    assert_eq!(words("../out/secret.mp4"), missing, "nobody learns what exists");
    assert!(AllowedDirs::new(&[outside.join("secret.mp4")]).is_err());
    assert!(AllowedDirs::new(&[]).unwrap().find("a.mp4").unwrap_err().message.contains("--allow-dir"));
}

#[test]
fn only_public_addresses_are_connected_to() {
    let is_public = |address: &str| fetch::is_public(address.parse::<IpAddr>().unwrap());
    for public in ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"] {
        assert!(is_public(public), "{public}");
    }
    for private in [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2001:0:1::1",
        "2001:db8::1",
    ] {
        assert!(!is_public(private), "{private}");
    }
}

/// A server that gives every connection this response, and its port.
fn serving(response: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(response.as_bytes());
        }
    });
    port
}

#[test]
fn redirects_are_checked_like_urls() {
    let store = store(100, 100);
    // Stands for a public address; 127.0.0.2 for a private one.
    let fetcher = Fetcher::within(None, |address| address == IpAddr::from([127, 0, 0, 1]));
    let fetch = |url: String| {
        let mut incoming = store.incoming().unwrap();
        fetcher.fetch(&url, &mut incoming).map(|()| incoming.bytes()).map_err(|error| error.message)
    };
    let ok = serving("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nvideo".into());
    assert_eq!(fetch(format!("http://127.0.0.1:{ok}/a.mp4")), Ok(5));
    assert!(fetch(format!("http://127.0.0.2:{ok}/")).unwrap_err().contains("no public address"));
    let to =
        |url: String| serving(format!("HTTP/1.1 302 Found\r\nlocation: {url}\r\ncontent-length: 0\r\n\r\n"));
    let good = to(format!("http://127.0.0.1:{ok}/"));
    assert_eq!(fetch(format!("http://127.0.0.1:{good}/")), Ok(5));
    let bad = to(format!("http://127.0.0.2:{ok}/"));
    assert!(fetch(format!("http://127.0.0.1:{bad}/")).unwrap_err().contains("no public address"));
    let file = to("file:///etc/passwd".into());
    assert!(fetch(format!("http://127.0.0.1:{file}/")).is_err());
    let missing = serving("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".into());
    assert!(fetch(format!("http://127.0.0.1:{missing}/")).unwrap_err().contains("404"));
    let large = serving(format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(200)));
    assert!(fetch(format!("http://127.0.0.1:{large}/")).unwrap_err().contains("larger than"));
}

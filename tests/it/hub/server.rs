//! A local server that speaks the hub's protocol, with failures that a test can inject.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use sha1::Digest;

/// The commit of every revision.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub headers: HashMap<String, String>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Close the connection after this many bytes of the body.
    pub cut: Option<usize>,
}

impl Reply {
    pub fn status(status: u16, code: &str) -> Self {
        Self { status, headers: vec![("x-error-code".into(), code.into())], ..Self::default() }
    }

    pub fn to(address: &str) -> Self {
        Self { status: 302, headers: vec![("location".into(), address.into())], ..Self::default() }
    }
}

#[derive(Clone)]
pub struct File {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// Large files are identified by SHA-256, others by their git hash.
    pub large: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl File {
    pub fn digest(&self) -> String {
        if self.large {
            return hex(&sha2::Sha256::digest(&self.bytes));
        }
        let mut sum = sha1::Sha1::new_with_prefix(format!("blob {}\0", self.bytes.len()));
        sum.update(&self.bytes);
        hex(&sum.finalize())
    }

    fn listed(&self) -> serde_json::Value {
        let (name, size, digest) = (self.name, self.bytes.len(), self.digest());
        match self.large {
            true => serde_json::json!({
                "rfilename": name, "size": size, "blobId": "f".repeat(40),
                "lfs": { "sha256": digest, "size": size, "pointerSize": 130 }
            }),
            false => serde_json::json!({ "rfilename": name, "size": size, "blobId": digest }),
        }
    }
}

/// Changes a reply; the number counts the earlier requests for this path.
pub type Quirk = dyn Fn(&Request, usize, &mut Reply) + Send + Sync;

/// A running server; it ends with the test process.
pub struct Server {
    pub address: String,
    pub requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Serve a model under the name `me/model`.
    pub fn start(files: Vec<File>, quirk: Box<Quirk>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::<Request>::new()));
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                let before = seen.lock().unwrap().iter().filter(|r| r.path == request.path).count();
                seen.lock().unwrap().push(request.clone());
                let mut reply = reply_to(&files, &request);
                quirk(&request, before, &mut reply);
                // The client may have closed the connection early.
                let _ = write(&stream, &reply);
            }
        });
        Self { address, requests }
    }

    pub fn asked(&self, end: &str) -> Vec<Request> {
        self.requests.lock().unwrap().iter().filter(|r| r.path.ends_with(end)).cloned().collect()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let headers = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_lowercase(), value.trim().to_owned()))
        })
        .collect();
    Some(Request { path, headers })
}

fn reply_to(files: &[File], request: &Request) -> Reply {
    if request.path.starts_with("/api/models/me/model/revision/") {
        let listed: Vec<_> = files.iter().map(File::listed).collect();
        let body = serde_json::json!({ "id": "me/model", "sha": COMMIT, "siblings": listed }).to_string();
        return Reply { status: 200, body: body.into_bytes(), ..Reply::default() };
    }
    let name = request.path.strip_prefix(&format!("/me/model/resolve/{COMMIT}/"));
    let name = name.or_else(|| request.path.strip_prefix("/blob/"));
    let Some(file) = name.and_then(|name| files.iter().find(|file| file.name == decoded(name))) else {
        return Reply::status(404, if name.is_some() { "EntryNotFound" } else { "RepoNotFound" });
    };
    let from =
        request.header("range").and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok());
    match from {
        None => Reply { status: 200, body: file.bytes.clone(), ..Reply::default() },
        Some(from) if from < file.bytes.len() => {
            let range = format!("bytes {from}-{}/{}", file.bytes.len() - 1, file.bytes.len());
            let headers = vec![("content-range".into(), range)];
            Reply { status: 206, headers, body: file.bytes[from..].to_vec(), cut: None }
        }
        Some(_) => Reply::status(416, ""),
    }
}

/// What a path means; `%` is followed by two digits.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut parts = path.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

fn write(mut stream: &TcpStream, reply: &Reply) -> std::io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} X\r\ncontent-length: {}\r\nconnection: close\r\n",
        reply.status,
        reply.body.len()
    );
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    stream.write_all(&reply.body[..reply.cut.unwrap_or(reply.body.len())])?;
    stream.flush()
}

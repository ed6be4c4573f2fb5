//! A running server, and requests to it.

use std::{
    cell::{RefCell, RefMut},
    io::{BufRead, BufReader, Read},
    process::Child,
    rc::Rc,
};

use serde_json::{Value, json};
use ureq::{Agent, Body, http::Response};

use crate::cli::{Program, send};

/// Copies are clients of the same server.
#[derive(Clone)]
pub struct Server {
    pub program: Rc<Program>,
    child: Rc<RefCell<Child>>,
    url: String,
    key: String,
    agent: Agent,
}

pub fn about(url: &str) -> Value {
    let content = super::content(&[url]);
    json!({"model": "specreel", "messages": [{"role": "user", "content": content}]})
}

/// The same, with additional fields.
pub fn ask(more: &Value, url: &str) -> Value {
    let mut body = about(url);
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// The server-sent events of a stream: names and data.
pub fn chunks(stream: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for event in stream.split("\n\n").filter(|event| !event.is_empty()) {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let Some(data) = field("data:") else { continue };
        let data = serde_json::from_str(data).unwrap_or_else(|_| json!(data));
        found.push((field("event:").unwrap_or_default().to_owned(), data));
    }
    found
}

fn text(response: Response<Body>) -> (u16, String) {
    (response.status().as_u16(), response.into_body().read_to_string().unwrap())
}

fn read(response: Response<Body>) -> (u16, Value) {
    let (status, text) = text(response);
    (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {status} {text}")))
}

impl Server {
    /// Start a server on a free port, and wait until its models are loaded.
    pub fn start(program: Program, args: &[&str]) -> Self {
        Self::start_in(Rc::new(program), args)
    }

    /// Another server in the same home directory.
    pub fn beside(&self, args: &[&str]) -> Self {
        Self::start_in(self.program.clone(), args)
    }

    fn start_in(program: Rc<Program>, args: &[&str]) -> Self {
        let mut child = program.spawn(&[&["serve", "--port", "0"], args].concat());
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            panic!("{stderr}");
        }
        let agent = Agent::config_builder().http_status_as_error(false).build().new_agent();
        let child = Rc::new(RefCell::new(child));
        Self { program, child, url: line.trim().to_owned(), key: String::new(), agent }
    }

    pub fn with_key(&self, key: &str) -> Self {
        let mut client = self.clone();
        client.key = format!("Bearer {key}");
        client
    }

    pub fn child(&self) -> RefMut<'_, Child> {
        self.child.borrow_mut()
    }

    fn answer(&self, path: &str, kind: &str, body: &[u8]) -> Response<Body> {
        let request = self.agent.post(format!("{}{path}", self.url)).header("content-type", kind);
        request.header("authorization", &self.key).send(body).unwrap()
    }

    pub fn any(&self, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        text(self.answer(path, kind, body))
    }

    pub fn send(&self, path: &str, kind: &str, body: &[u8]) -> (u16, Value) {
        read(self.answer(path, kind, body))
    }

    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.send(path, "application/json", body.to_string().as_bytes())
    }

    /// The answer of a request that succeeds.
    pub fn ok(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub fn open(&self, body: &Value) -> impl BufRead + use<> {
        let response = self.answer("/v1/chat/completions", "application/json", body.to_string().as_bytes());
        assert_eq!(response.status(), 200);
        BufReader::new(response.into_body().into_reader())
    }

    pub fn raw(&self, path: &str, body: &Value) -> String {
        self.any(path, "application/json", body.to_string().as_bytes()).1
    }

    /// The answer to a message of the Model Context Protocol, and the session of the answer.
    pub fn mcp(&self, session: &str, message: &Value) -> (u16, String, Value) {
        let request = self.agent.post(format!("{}/mcp", self.url)).header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream");
        let request = if session.is_empty() { request } else { request.header("mcp-session-id", session) };
        let response = request.send(message.to_string().as_bytes()).unwrap();
        let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let (status, text) = text(response);
        let answer = chunks(&text).into_iter().map(|(_, data)| data).find(|data| data["id"] == message["id"]);
        (status, session.unwrap_or_default(), answer.unwrap_or_default())
    }

    fn fetch(&self, path: &str) -> Response<Body> {
        let request = self.agent.get(format!("{}{path}", self.url));
        request.header("authorization", &self.key).call().unwrap()
    }

    /// Whether it takes connections; not once it is ending.
    pub fn is_open(&self) -> bool {
        std::net::TcpStream::connect(self.url.trim_start_matches("http://")).is_ok()
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        read(self.fetch(path))
    }

    /// The page, with what it may load.
    pub fn page(&self) -> (String, String) {
        let response = self.fetch("/");
        assert_eq!(response.status(), 200);
        let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
        (policy, response.into_body().read_to_string().unwrap())
    }

    pub fn text(&self, path: &str) -> String {
        self.fetch(path).into_body().read_to_string().unwrap()
    }

    /// The status of a request that a web page of this origin makes.
    pub fn as_origin(&self, origin: &str, path: &str) -> u16 {
        let request = self.agent.get(format!("{}{path}", self.url)).header("origin", origin);
        request.header("authorization", &self.key).call().unwrap().status().as_u16()
    }

    pub fn delete(&self, path: &str) -> (u16, Value) {
        let request = self.agent.delete(format!("{}{path}", self.url));
        read(request.header("authorization", &self.key).call().unwrap())
    }

    /// Upload a video under a name that leads elsewhere.
    pub fn upload(&self, bytes: &[u8]) -> Value {
        let mut body = b"--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--x\r\n\
            content-disposition: form-data; name=\"file\"; filename=\"../clip.mp4\"\r\n\r\n"
            .to_vec();
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n--x--\r\n");
        let (status, answer) = self.send("/v1/files", "multipart/form-data; boundary=x", &body);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub fn end(&self, signal: &str) -> Option<i32> {
        send(&self.child(), signal);
        self.wait()
    }

    /// The exit code, once it has ended.
    pub fn wait(&self) -> Option<i32> {
        self.child().wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if Rc::strong_count(&self.child) == 1 {
            let _ = self.child.borrow_mut().kill();
            let _ = self.child.borrow_mut().wait();
        }
    }
}
